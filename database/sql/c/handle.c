/*
** The functions of btree.c whose subject is a database handle.
**
** Opening one of ours first opens an in-memory B-tree of SQLite's, the shadow,
** which stays empty: everything that SQLite asks about pages, caches, journals
** and mutexes goes to it and gets a harmless answer. Our cursors are linked
** into the shadow's list. What has to agree with our transaction is kept here:
** Btree.inTrans and the state of the cursors.
*/

static int fulmarServes(Btree *p){
  return p!=0 && p->pFulmar!=0;
}

/* The largest root page that a schema may name. */
static Pgno fulmarLastRoot(Btree *p){
  return fulmarServes(p) ? 0xffffffff : sqlite3BtreeLastPage(p);
}

static u32 fulmarDataVersion(Btree *p){
  return fulmar_data_version(p->pFulmar);
}

static i64 fulmarRoundTrips(Btree *p){
  return fulmar_round_trips(p->pFulmar);
}

/* PRAGMA page_count: pages of PRAGMA page_size that what is stored would fill. */
static int fulmarPageCount(Btree *p, i64 *pnPage){
  i64 nByte = 0, szPage;
  int rc;
  if( !fulmarServes(p) ){
    *pnPage = sqlite3BtreeLastPage(p);
    return SQLITE_OK;
  }
  rc = fulmar_bytes(p->pFulmar, &nByte);
  szPage = sqlite3BtreeGetPageSize(p);
  *pnPage = nByte / szPage + (nByte % szPage != 0);
  return rc;
}

/* Whether BEGIN IMMEDIATE keeps other writers out, as BEGIN EXCLUSIVE does. */
static int fulmarImmediateIsExclusive(Btree *p){
  return fulmarServes(p) && fulmar_immediate_is_exclusive(p->pFulmar);
}

/*
** PRAGMAs of ours: asked before SQLite looks for its own. azArg has the answer,
** the name, and the value or 0.
*/
static int fulmarPragma(sqlite3 *db, Btree *p, char **azArg){
  int rc = SQLITE_OK;
  if( sqlite3_stricmp(azArg[1], "fulmar_immediate") ) return SQLITE_NOTFOUND;
  if( azArg[2] ){
    rc = fulmar_set_immediate(p->pFulmar, azArg[2]);
    /* A BEGIN IMMEDIATE that was prepared before has the old meaning. */
    sqlite3ExpirePreparedStatements(db, 0);
  }
  azArg[0] = rc ? sqlite3_mprintf("fulmar_immediate = %s: expected shared or exclusive", azArg[2])
                : sqlite3_mprintf("%s", fulmarImmediateIsExclusive(p) ? "exclusive" : "shared");
  return azArg[0] ? rc : SQLITE_NOMEM;
}

/*
** PRAGMA busy_timeout: servers may take as long to answer. (Not for
** sqlite3_busy_timeout, which drivers call with what they think is usual.)
*/
static void fulmarBusyTimeout(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++){
    Btree *p = db->aDb[i].pBt;
    if( fulmarServes(p) ) fulmar_set_limit(p->pFulmar, db->busyTimeout);
  }
}

/*
** Another cursor, or a rollback, changes the tree iRoot, or all if it is 0:
** cursors other than pExcept find their place again when next used. A pinned
** one may not; nor after its own deletion, which leaves SQLite's cursors valid.
*/
static int fulmarUnsettle(BtShared *pBt, Pgno iRoot, BtCursor *pExcept){
  BtCursor *p;
  for(p=pBt->pCursor; p; p=p->pNext){
    if( p!=pExcept && (iRoot==0 || p->pgnoRoot==iRoot)
     && (p->eState==CURSOR_VALID || p->eState==CURSOR_REQUIRESEEK)
    ){
      if( p->curFlags & BTCF_Pinned ) return SQLITE_CONSTRAINT_PINNED;
      p->eState = CURSOR_REQUIRESEEK;
    }
  }
  return SQLITE_OK;
}

/* The row iRow of a table, or with bAll every row, changes: its blob handles end. */
static void fulmarEndBlobs(Btree *p, Pgno iRoot, i64 iRow, int bAll){
  BtCursor *pCur;
  p->hasIncrblobCur = 0;
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( pCur->curFlags & BTCF_Incrblob ){
      p->hasIncrblobCur = 1;
      if( pCur->pgnoRoot==iRoot && (bAll || pCur->pFulmar->iRow==iRow) ){
        pCur->eState = CURSOR_INVALID;
      }
    }
  }
}

/* Whether the main database zFilename is ours: by its name, or as a file that is sent to us. */
static int fulmarOpens(sqlite3_vfs *pVfs, const char *zFilename, int vfsFlags){
  if( (vfsFlags & SQLITE_OPEN_MAIN_DB)==0 || zFilename==0 ) return 0;
  if( strncmp(zFilename, "fulmar:", 7)==0 ) return 1;
  return zFilename[0]!=0 && strcmp(zFilename, ":memory:")!=0
      && (vfsFlags & SQLITE_OPEN_MEMORY)==0
      && strncmp(pVfs->zName, "unix", 4)==0
      && fulmar_redirects(zFilename);
}

SQLITE_PRIVATE int sqlite3BtreeOpen(
  sqlite3_vfs *pVfs, const char *zFilename, sqlite3 *db, Btree **ppBtree,
  int flags, int vfsFlags
){
  FulmarHandle *pFulmar = 0;
  Btree *p;
  int rc;
  fulmar_open_failure(1);
  if( !fulmarOpens(pVfs, zFilename, vfsFlags) ){
    return original_sqlite3BtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
  }
  *ppBtree = 0;
  /* file:x.db?immutable=1: whoever says so does not expect it to change. */
  if( sqlite3_uri_boolean(zFilename, "immutable", 0) ){
    vfsFlags &= ~(SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE);
  }
  rc = fulmar_open(zFilename, (vfsFlags & SQLITE_OPEN_READWRITE)!=0,
                   (vfsFlags & SQLITE_OPEN_CREATE)!=0, &pFulmar);
  if( rc ) return rc;
  rc = original_sqlite3BtreeOpen(pVfs, ":memory:", db, &p, flags,
      SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_MAIN_DB);
  if( rc ){
    fulmar_close(pFulmar);
    return rc;
  }
  p->pFulmar = pFulmar;
  fulmar_heed(pFulmar, (int*)&db->u1.isInterrupted);
  p->zFulmarName = sqlite3_create_filename(fulmar_name(pFulmar), "", "", 0, 0);
  if( p->zFulmarName==0 ){
    sqlite3BtreeClose(p);
    return SQLITE_NOMEM_BKPT;
  }
  if( fulmar_is_read_only(pFulmar) ) p->pBt->btsFlags |= BTS_READ_ONLY;
  *ppBtree = p;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p){
  if( fulmarServes(p) ){
    fulmar_close(p->pFulmar);
    p->pFulmar = 0;
    p->inTrans = TRANS_NONE;
    sqlite3_free_filename(p->zFulmarName);
  }
  return original_sqlite3BtreeClose(p);
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  sqlite3 *db = p->db;
  int rc = SQLITE_OK;
  if( !fulmarServes(p) ) return original_sqlite3BtreeBeginTrans(p, wrflag, pSchemaVersion);
  /* A BEGIN within a transaction is about to be refused. */
  if( wrflag>1 && db->autoCommit==0 ) wrflag = 1;
  if( p->inTrans==TRANS_NONE || (wrflag && p->inTrans==TRANS_READ) || wrflag>1 ){
    int bKeepBase = db->autoCommit==0 || db->nVdbeRead>1;
    do{
      rc = fulmar_begin(p->pFulmar, wrflag, bKeepBase);
    }while( rc==SQLITE_BUSY && sqlite3InvokeBusyHandler(&db->busyHandler) );
    if( rc ) return rc;
    p->inTrans = wrflag ? TRANS_WRITE : TRANS_READ;
  }
  if( pSchemaVersion ) rc = fulmar_schema_cookie(p->pFulmar, (u32*)pSchemaVersion);
  if( rc==SQLITE_OK && wrflag && db->nSavepoint ){
    rc = fulmar_open_savepoints(p->pFulmar, db->nSavepoint);
  }
  return rc;
}

/* The whole commit: it either happens here, and is durable, or it never does. */
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  if( !fulmarServes(p) ) return original_sqlite3BtreeCommitPhaseOne(p, zSuperJrnl);
  return p->inTrans==TRANS_WRITE ? fulmar_commit(p->pFulmar) : SQLITE_OK;
}

/* Ends the transaction; while other statements of the connection still read, it goes on reading. */
static int fulmarEnd(Btree *p){
  int bKeepReading = p->db->nVdbeRead>1;
  int rc;
  if( p->inTrans==TRANS_NONE ) return SQLITE_OK;
  rc = fulmar_end(p->pFulmar, bKeepReading);
  p->inTrans = bKeepReading ? TRANS_READ : TRANS_NONE;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int bCleanup){
  if( !fulmarServes(p) ) return original_sqlite3BtreeCommitPhaseTwo(p, bCleanup);
  if( p->inTrans==TRANS_WRITE ) fulmarUnsettle(p->pBt, 0, 0);
  return fulmarEnd(p);
}

SQLITE_PRIVATE int sqlite3BtreeCommit(Btree *p){
  int rc;
  if( !fulmarServes(p) ) return original_sqlite3BtreeCommit(p);
  rc = sqlite3BtreeCommitPhaseOne(p, 0);
  return rc ? rc : sqlite3BtreeCommitPhaseTwo(p, 0);
}

SQLITE_PRIVATE int sqlite3BtreeTripAllCursors(Btree *p, int errCode, int writeOnly){
  BtCursor *pCur;
  if( !fulmarServes(p) ) return original_sqlite3BtreeTripAllCursors(p, errCode, writeOnly);
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( writeOnly && (pCur->curFlags & BTCF_WriteFlag)==0 ){
      if( pCur->eState==CURSOR_VALID ) pCur->eState = CURSOR_REQUIRESEEK;
    }else{
      pCur->eState = CURSOR_FAULT;
      pCur->skipNext = errCode;
    }
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int tripCode, int writeOnly){
  if( !fulmarServes(p) ) return original_sqlite3BtreeRollback(p, tripCode, writeOnly);
  if( tripCode==SQLITE_OK ) tripCode = fulmarUnsettle(p->pBt, 0, 0);
  if( tripCode ) sqlite3BtreeTripAllCursors(p, tripCode, writeOnly);
  return fulmarEnd(p);
}

SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  if( !fulmarServes(p) ) return original_sqlite3BtreeBeginStmt(p, iStatement);
  return fulmar_open_savepoints(p->pFulmar, iStatement);
}

SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  if( !fulmarServes(p) ) return original_sqlite3BtreeSavepoint(p, op, iSavepoint);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( op==SAVEPOINT_RELEASE ) return fulmar_release_savepoint(p->pFulmar, iSavepoint);
  fulmarUnsettle(p->pBt, 0, 0);
  return fulmar_undo_savepoint(p->pFulmar, iSavepoint);
}

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  if( !fulmarServes(p) ) return original_sqlite3BtreeCreateTable(p, piTable, flags);
  return fulmar_create_tree(p->pFulmar, 0, piTable);
}

/* OP_CreateBtree for an index of the table iTable, if that is known. */
static int fulmarCreateIndex(Btree *p, Pgno *piIndex, Pgno iTable){
  return fulmar_create_tree(p->pFulmar, iTable, piIndex);
}

SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  if( !fulmarServes(p) ) return original_sqlite3BtreeDropTable(p, iTable, piMoved);
  *piMoved = 0;
  fulmarEndBlobs(p, (Pgno)iTable, 0, 1);
  fulmarUnsettle(p->pBt, (Pgno)iTable, 0);
  return fulmar_drop_tree(p->pFulmar, (u32)iTable);
}

SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  int rc;
  if( !fulmarServes(p) ) return original_sqlite3BtreeClearTable(p, iTable, pnChange);
  rc = fulmarUnsettle(p->pBt, (Pgno)iTable, 0);
  if( rc ) return rc;
  fulmarEndBlobs(p, (Pgno)iTable, 0, 1);
  return fulmar_clear_tree(p->pFulmar, (u32)iTable, pnChange);
}

/*
** schemaIsValid() calls it when a name is not found, to compare the schema
** cookie: 0, after a failure, makes it read the schema, which says what is wrong.
*/
SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int idx, u32 *pMeta){
  if( !fulmarServes(p) ){
    original_sqlite3BtreeGetMeta(p, idx, pMeta);
  }else if( idx==BTREE_DATA_VERSION ){
    *pMeta = fulmar_data_version(p->pFulmar);
  }else{
    *pMeta = 0;
    fulmar_meta(p->pFulmar, idx, pMeta);
  }
}

SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int idx, u32 iMeta){
  if( !fulmarServes(p) ) return original_sqlite3BtreeUpdateMeta(p, idx, iMeta);
  return fulmar_set_meta(p->pFulmar, idx, iMeta);
}

/* What PRAGMA integrity_check has found so far. */
typedef struct FulmarFindings FulmarFindings;
struct FulmarFindings {
  sqlite3_str *pText;
  Pgno iRoot;
  int nErr;
  int mxErr;
};

static void fulmarFinding(void *pArg, const char *zLine){
  FulmarFindings *p = (FulmarFindings*)pArg;
  if( p->nErr>=p->mxErr ) return;
  sqlite3_str_appendf(p->pText, "%sTree %u: %s", p->nErr ? "\n" : "", p->iRoot, zLine);
  p->nErr++;
}

SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(
  sqlite3 *db, Btree *p, Pgno *aRoot, sqlite3_value *aCnt, int nRoot, int mxErr,
  int *pnErr, char **pzOut
){
  FulmarFindings found;
  int rc = SQLITE_OK;
  int i;
  if( !fulmarServes(p) ){
    return original_sqlite3BtreeIntegrityCheck(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  }
  memset(&found, 0, sizeof(found));
  found.pText = sqlite3_str_new(0);
  found.mxErr = mxErr;
  for(i=0; i<nRoot && rc==SQLITE_OK; i++){
    i64 nRow = 0;
    if( aRoot[i] ){
      found.iRoot = aRoot[i];
      rc = fulmar_check(p->pFulmar, aRoot[i], &found, fulmarFinding);
      if( rc==SQLITE_OK ) rc = fulmar_count(p->pFulmar, aRoot[i], &nRow);
    }
    sqlite3MemSetArrayInt64(aCnt, i, nRow);
  }
  *pnErr = found.nErr;
  *pzOut = sqlite3_str_finish(found.pText);
  return rc;
}

SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p){
  return fulmarServes(p) ? p->zFulmarName : original_sqlite3BtreeGetFilename(p);
}

/* PRAGMA synchronous: FULL and EXTRA survive the loss of power, NORMAL and OFF the end of the process. */
SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned pgFlags){
  if( fulmarServes(p) ){
    fulmar_set_synced(p->pFulmar, (pgFlags & PAGER_SYNCHRONOUS_MASK)>=PAGER_SYNCHRONOUS_FULL);
  }
  return original_sqlite3BtreeSetPagerFlags(p, pgFlags);
}

/*
** Of no meaning here: the format of page 1, and moving pages about.
*/
SQLITE_PRIVATE int sqlite3BtreeNewDb(Btree *p){
  return fulmarServes(p) ? SQLITE_OK : original_sqlite3BtreeNewDb(p);
}
SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int iVersion){
  return fulmarServes(p) ? SQLITE_OK : original_sqlite3BtreeSetVersion(p, iVersion);
}
SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int autoVacuum){
  return fulmarServes(p) ? SQLITE_READONLY : original_sqlite3BtreeSetAutoVacuum(p, autoVacuum);
}
SQLITE_PRIVATE int sqlite3BtreeIncrVacuum(Btree *p){
  return fulmarServes(p) ? SQLITE_DONE : original_sqlite3BtreeIncrVacuum(p);
}
