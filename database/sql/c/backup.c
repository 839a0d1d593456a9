/*
** Copies of whole databases. SQLite copies pages; a database of ours has none,
** and is copied as VACUUM INTO does it, by the records of its tables.
*/

/* sqlite3.mDbFlags: VACUUM INTO may replace what the output holds. */
#define DBFLAG_FULMAR_REPLACE 0x10000

/* Whether VACUUM INTO must leave its output alone. */
static int fulmarRefusesOutput(sqlite3 *db, Btree *pOut){
  return fulmarServes(pOut)
      && (db->mDbFlags & DBFLAG_FULMAR_REPLACE)==0
      && fulmar_has_content(pOut->pFulmar);
}

/* VACUUM INTO begins to write its output, attached as number iOut. */
static int fulmarEmptyOutput(sqlite3 *db, int iOut){
  Btree *pOut = db->aDb[iOut].pBt;
  int rc;
  if( (db->mDbFlags & DBFLAG_FULMAR_REPLACE)==0 || !fulmarServes(pOut) ) return SQLITE_OK;
  rc = sqlite3BtreeBeginTrans(pOut, 1, 0);
  if( rc==SQLITE_OK ) rc = fulmar_empty(pOut->pFulmar);
  if( rc==SQLITE_OK ) sqlite3ResetOneSchema(db, iOut);
  return rc;
}

/* VACUUM zSchema INTO zOut. */
static int fulmarVacuumInto(sqlite3 *db, const char *zSchema, const char *zOut){
  char *zSql = sqlite3_mprintf("VACUUM \"%w\" INTO %Q", zSchema, zOut);
  int rc = zSql ? sqlite3_exec(db, zSql, 0, 0, 0) : SQLITE_NOMEM_BKPT;
  sqlite3_free(zSql);
  return rc;
}

/* Copies a database to one in memory, which lives until *ppCopy is closed. */
static int fulmarCopyToMemory(sqlite3 *db, const char *zSchema, sqlite3 **ppCopy){
  char zName[64];
  u64 iRandom;
  int rc;
  sqlite3_randomness(sizeof(iRandom), &iRandom);
  sqlite3_snprintf(sizeof(zName), zName, "file:/fulmar-copy-%016llx?vfs=memdb", iRandom);
  rc = sqlite3_open_v2(zName, ppCopy, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_URI, 0);
  return rc ? rc : fulmarVacuumInto(db, zSchema, zName);
}

/* Whether one of the two databases of a backup has no pages. */
static int fulmarTakesPart(sqlite3_backup *p){
  int iDest;
  if( p->pDestDb==0 ) return 0;
  if( fulmarServes(p->pSrc) ) return 1;
  iDest = sqlite3FindDbName(p->pDestDb, p->zDestDb);
  return iDest>=0 && fulmarServes(p->pDestDb->aDb[iDest].pBt);
}

/* The whole of a backup in one step. */
static int fulmarBackup(sqlite3_backup *p){
  const char *zSource = 0;
  sqlite3 *pCopy = 0;
  Btree *pDest;
  int rc, i;
  if( isFatalError(p->rc) ) return p->rc;
  pDest = findBtree(p->pDestDb, p->pDestDb, p->zDestDb);
  for(i=0; i<p->pSrcDb->nDb; i++){
    if( p->pSrcDb->aDb[i].pBt==p->pSrc ) zSource = p->pSrcDb->aDb[i].zDbSName;
  }
  if( pDest==0 || zSource==0 ){
    rc = SQLITE_ERROR;
  }else if( sqlite3BtreeTxnState(p->pSrc)==SQLITE_TXN_WRITE ){
    rc = SQLITE_BUSY;
  }else if( fulmarServes(pDest) ){
    p->pSrcDb->mDbFlags |= DBFLAG_FULMAR_REPLACE;
    rc = fulmarVacuumInto(p->pSrcDb, zSource, pDest->zFulmarName);
    p->pSrcDb->mDbFlags &= ~DBFLAG_FULMAR_REPLACE;
  }else{
    rc = fulmarCopyToMemory(p->pSrcDb, zSource, &pCopy);
    if( rc==SQLITE_OK ){
      sqlite3_backup *pPages = sqlite3_backup_init(p->pDestDb, p->zDestDb, pCopy, "main");
      if( pPages ) sqlite3_backup_step(pPages, -1);
      rc = pPages ? sqlite3_backup_finish(pPages) : sqlite3_errcode(p->pDestDb);
    }
    sqlite3_close(pCopy);
  }
  if( rc==SQLITE_OK ){
    sqlite3ResetAllSchemasOfConnection(p->pDestDb);
    p->nPagecount = 1;
    p->nRemaining = 0;
    rc = SQLITE_DONE;
  }
  p->rc = rc;
  return rc;
}

/* The bytes of an ordinary database file with the same content. */
static unsigned char *fulmarSerialize(sqlite3 *db, const char *zSchema, sqlite3_int64 *piSize){
  unsigned char *pOut = 0;
  sqlite3 *pCopy = 0;
  if( fulmarCopyToMemory(db, zSchema, &pCopy)==SQLITE_OK ){
    pOut = sqlite3_serialize(pCopy, "main", piSize, 0);
  }
  sqlite3_close(pCopy);
  return pOut;
}
