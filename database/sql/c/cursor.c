/*
** The functions of btree.c whose subject is a cursor.
**
** A cursor of ours is VALID (on a record), INVALID (nowhere), FAULT, or
** REQUIRESEEK: at the place of a record that may have changed or gone. Next and
** Previous go on from that place, so SKIPNEXT is not needed.
*/

/* BtCursor.hints: a record that is found must stay. */
#define FULMAR_HINT_PARENT 0x80
/* BtCursor.hints: the row that is sought next is meant to be there. */
#define FULMAR_HINT_MEANT  0x40
/* BtCursor.hints: only that row is wanted, and none beside it. */
#define FULMAR_HINT_EXACT  0x20

static void fulmarCursorSeeksParent(BtCursor *pCur){
  pCur->hints |= FULMAR_HINT_PARENT;
}

/*
** OP_SeekRowid, which looks for a row to work on, or OP_NotExists, which makes
** sure of it, is about to seek.
*/
static void fulmarCursorSeeks(BtCursor *pCur, int bMeant){
  pCur->hints |= FULMAR_HINT_EXACT;
  if( bMeant && (pCur->curFlags & BTCF_WriteFlag) ){
    pCur->hints |= FULMAR_HINT_MEANT;
  }else{
    pCur->hints &= ~FULMAR_HINT_MEANT;
  }
}

/* Reads the record of a cursor that stands on a row by assumption. */
static FulmarCursor *fulmarLoaded(BtCursor *pCur){
  FulmarCursor *p = pCur->pFulmar;
  if( p->pData==0 && pCur->eState==CURSOR_VALID ) fulmar_load_row(pCur->pBtree->pFulmar, p);
  return p;
}

/* What fulmar_first and the like have answered: where the cursor is now. */
static int fulmarArrive(BtCursor *pCur, int rc, int *pEmpty){
  pCur->eState = rc==SQLITE_OK ? CURSOR_VALID : CURSOR_INVALID;
  *pEmpty = rc==SQLITE_DONE;
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* The name of the index with root page iRoot, for a message. */
static const char *fulmarIndexName(sqlite3 *db, Btree *p, Pgno iRoot){
  int i;
  for(i=0; i<db->nDb; i++){
    HashElem *pElem;
    if( db->aDb[i].pBt!=p || db->aDb[i].pSchema==0 ) continue;
    for(pElem=sqliteHashFirst(&db->aDb[i].pSchema->idxHash); pElem; pElem=sqliteHashNext(pElem)){
      Index *pIdx = (Index*)sqliteHashData(pElem);
      if( pIdx->tnum==iRoot ) return pIdx->zName;
    }
  }
  return "to be created";
}

/* Tells the back end how the fields of an index compare. */
static int fulmarDescribeIndex(Btree *p, Pgno iRoot, FulmarCursor *pFulmar, KeyInfo *pKeyInfo){
  u8 aSmall[64];
  u8 *aField = aSmall;
  int n = pKeyInfo->nKeyField;
  int rc, i;
  if( n>ArraySize(aSmall) ){
    aField = sqlite3_malloc(n);
    if( aField==0 ) return SQLITE_NOMEM_BKPT;
  }
  for(i=0; i<n; i++){
    CollSeq *pColl = pKeyInfo->aColl[i];
    if( pColl==0 || pColl->xCmp==sqlite3BinaryCompare ){
      aField[i] = FULMAR_BINARY;
    }else if( pColl->xCmp==nocaseCollatingFunc ){
      aField[i] = FULMAR_NOCASE;
    }else if( pColl->xCmp==rtrimCollFunc ){
      aField[i] = FULMAR_RTRIM;
    }else{
      char *z = sqlite3_mprintf("index %s: its order under the collation %s is known only to the "
          "application, so it cannot be stored; use BINARY, NOCASE or RTRIM in an index, and %s in "
          "ORDER BY or in comparisons",
          fulmarIndexName(p->db, p, iRoot), pColl->zName, pColl->zName);
      rc = z ? fulmar_fail(p->pFulmar, SQLITE_ERROR, z) : SQLITE_NOMEM_BKPT;
      sqlite3_free(z);
      if( aField!=aSmall ) sqlite3_free(aField);
      return rc;
    }
    if( pKeyInfo->aSortFlags[i] & KEYINFO_ORDER_DESC ) aField[i] |= FULMAR_DESC;
  }
  rc = fulmar_cursor_on_index(p->pFulmar, pFulmar, aField, n, pKeyInfo->nFulmarUnique, pKeyInfo->enc);
  if( aField!=aSmall ) sqlite3_free(aField);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCursor(
  Btree *p, Pgno iTable, int wrFlag, struct KeyInfo *pKeyInfo, BtCursor *pCur
){
  BtShared *pBt = p->pBt;
  FulmarCursor *pFulmar;
  BtCursor *pX;
  int rc;
  if( !fulmarServes(p) ) return original_sqlite3BtreeCursor(p, iTable, wrFlag, pKeyInfo, pCur);
  if( iTable<1 ) return SQLITE_CORRUPT_BKPT;
  pFulmar = fulmar_cursor_open(p->pFulmar, iTable);
  if( pFulmar==0 ) return SQLITE_INTERNAL;
  if( pKeyInfo ){
    rc = fulmarDescribeIndex(p, iTable, pFulmar, pKeyInfo);
    if( rc ){
      fulmar_cursor_close(p->pFulmar, pFulmar);
      return rc;
    }
  }
  pCur->pFulmar = pFulmar;
  pCur->pgnoRoot = iTable;
  pCur->iPage = -1;
  pCur->pKeyInfo = pKeyInfo;
  pCur->curIntKey = pKeyInfo==0;
  pCur->pBtree = p;
  pCur->pBt = pBt;
  pCur->curFlags = wrFlag ? BTCF_WriteFlag : 0;
  pCur->eState = CURSOR_INVALID;
  for(pX=pBt->pCursor; pX; pX=pX->pNext){
    if( pX->pgnoRoot==iTable ){
      pX->curFlags |= BTCF_Multiple;
      pCur->curFlags |= BTCF_Multiple;
    }
  }
  pCur->pNext = pBt->pCursor;
  pBt->pCursor = pCur;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  Btree *p = pCur->pBtree;
  BtCursor **pp;
  if( p==0 ) return SQLITE_OK;
  sqlite3_free(pCur->aFulmarStash);
  pCur->aFulmarStash = 0;
  pCur->szFulmarStash = 0;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeCloseCursor(pCur);
  for(pp=&p->pBt->pCursor; *pp!=pCur; pp=&(*pp)->pNext){}
  *pp = pCur->pNext;
  fulmar_cursor_close(p->pFulmar, pCur->pFulmar);
  pCur->pFulmar = 0;
  pCur->pBtree = 0;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeClearTableOfCursor(BtCursor *pCur){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeClearTableOfCursor(pCur);
  return sqlite3BtreeClearTable(pCur->pBtree, pCur->pgnoRoot, 0);
}

/* After finding the record that was sought. */
static int fulmarFound(BtCursor *pCur){
  if( (pCur->hints & FULMAR_HINT_PARENT) && pCur->pBtree->inTrans==TRANS_WRITE ){
    return fulmar_keep(pCur->pBtree->pFulmar, pCur->pFulmar);
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int biasRight, int *pRes){
  int rc, bEmpty, bExact;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeTableMoveto(pCur, intKey, biasRight, pRes);
  bExact = (pCur->hints & FULMAR_HINT_EXACT)!=0;
  pCur->hints &= ~FULMAR_HINT_EXACT;
  if( pCur->eState==CURSOR_VALID && pCur->pFulmar->iRow==intKey ){
    *pRes = 0;
    return SQLITE_OK;
  }
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( (pCur->hints & FULMAR_HINT_MEANT)
   && fulmar_assume_row(pCur->pBtree->pFulmar, pCur->pFulmar, intKey)
  ){
    pCur->eState = CURSOR_VALID;
    *pRes = 0;
    return SQLITE_OK;
  }
  rc = fulmar_seek_row(pCur->pBtree->pFulmar, pCur->pFulmar, intKey, bExact, pRes);
  rc = fulmarArrive(pCur, rc, &bEmpty);
  return rc==SQLITE_OK && *pRes==0 ? fulmarFound(pCur) : rc;
}

/* A register's value in the form that the back end takes. */
static void fulmarValueOf(const Mem *pMem, FulmarValue *p){
  p->nZero = 0;
  if( pMem->flags & MEM_Null ){
    p->eKind = FULMAR_NULL;
  }else if( pMem->flags & (MEM_Int|MEM_IntReal) ){
    p->eKind = FULMAR_INTEGER;
    p->i = pMem->u.i;
  }else if( pMem->flags & MEM_Real ){
    p->eKind = FULMAR_REAL;
    p->r = pMem->u.r;
  }else{
    p->eKind = pMem->flags & MEM_Str ? FULMAR_TEXT : FULMAR_BLOB;
    p->p = (const u8*)pMem->z;
    p->n = (u32)pMem->n;
    if( pMem->flags & MEM_Zero ) p->nZero = (u32)pMem->u.nZero;
  }
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pIdxKey, int *pRes){
  FulmarValue aSmall[8];
  FulmarValue *aValue = aSmall;
  int n = MIN(pIdxKey->nField, pCur->pKeyInfo->nKeyField);
  int rc, i, bEmpty, bEqual = 0;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeIndexMoveto(pCur, pIdxKey, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  pIdxKey->errCode = 0;
  if( n>ArraySize(aSmall) ){
    aValue = sqlite3_malloc64(n*sizeof(FulmarValue));
    if( aValue==0 ) return SQLITE_NOMEM_BKPT;
  }
  for(i=0; i<n; i++) fulmarValueOf(&pIdxKey->aMem[i], &aValue[i]);
  rc = fulmar_seek_entry(pCur->pBtree->pFulmar, pCur->pFulmar, aValue, n,
                         pIdxKey->default_rc, pRes, &bEqual);
  if( aValue!=aSmall ) sqlite3_free(aValue);
  rc = fulmarArrive(pCur, rc, &bEmpty);
  if( rc==SQLITE_OK && bEqual ){
    pIdxKey->eqSeen = 1;
    rc = fulmarFound(pCur);
  }
  return rc;
}

/* Brings a cursor back to its record; SQLITE_DONE if that is gone. */
static int fulmarRestore(BtCursor *pCur){
  int rc;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( pCur->eState!=CURSOR_REQUIRESEEK ) return pCur->eState==CURSOR_VALID ? SQLITE_OK : SQLITE_DONE;
  rc = fulmar_restore(pCur->pBtree->pFulmar, pCur->pFulmar);
  if( rc==SQLITE_OK ) pCur->eState = CURSOR_VALID;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCursorRestore(BtCursor *pCur, int *pDifferentRow){
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeCursorRestore(pCur, pDifferentRow);
  rc = fulmarRestore(pCur);
  *pDifferentRow = rc!=SQLITE_OK;
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *pCur, int *pRes){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeFirst(pCur, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  return fulmarArrive(pCur, fulmar_first(pCur->pBtree->pFulmar, pCur->pFulmar), pRes);
}

SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeIsEmpty(pCur, pRes);
  return sqlite3BtreeFirst(pCur, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeLast(pCur, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  return fulmarArrive(pCur, fulmar_last(pCur->pBtree->pFulmar, pCur->pFulmar), pRes);
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeNext(pCur, flags);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  rc = fulmar_next(pCur->pBtree->pFulmar, pCur->pFulmar);
  pCur->eState = rc==SQLITE_OK ? CURSOR_VALID : CURSOR_INVALID;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreePrevious(pCur, flags);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  rc = fulmar_previous(pCur->pBtree->pFulmar, pCur->pFulmar);
  pCur->eState = rc==SQLITE_OK ? CURSOR_VALID : CURSOR_INVALID;
  return rc;
}

/* Before a change through pCur. */
static int fulmarWrites(BtCursor *pCur){
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( pCur->curFlags & BTCF_Multiple ) return fulmarUnsettle(pCur->pBt, pCur->pgnoRoot, pCur);
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeInsert(
  BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult
){
  Btree *p = pCur->pBtree;
  BtreePayload stashed;
  int rc;
  if( (flags & BTREE_PREFORMAT) && pCur->aFulmarStash ){
    /* A record that sqlite3BtreeTransferRow has put by. */
    memset(&stashed, 0, sizeof(stashed));
    if( pCur->pKeyInfo ){
      stashed.pKey = pCur->aFulmarStash;
      stashed.nKey = pCur->nFulmarStash;
    }else{
      stashed.nKey = pX->nKey;
      stashed.pData = pCur->aFulmarStash;
      stashed.nData = (int)pCur->nFulmarStash;
    }
    pX = &stashed;
    flags &= ~BTREE_PREFORMAT;
  }
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeInsert(pCur, pX, flags, seekResult);
  rc = fulmarWrites(pCur);
  if( rc ) return rc;
  if( pCur->pKeyInfo==0 ){
    if( p->hasIncrblobCur ) fulmarEndBlobs(p, pCur->pgnoRoot, pX->nKey, 0);
    rc = fulmar_insert_row(p->pFulmar, pCur->pFulmar, pX->nKey, pX->pData, pX->nData, pX->nZero);
  }else{
    rc = fulmar_insert_entry(p->pFulmar, pCur->pFulmar, pX->pKey, pX->nKey);
  }
  pCur->eState = rc==SQLITE_OK ? CURSOR_REQUIRESEEK : CURSOR_INVALID;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  Btree *p = pCur->pBtree;
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeDelete(pCur, flags);
  rc = fulmarRestore(pCur);
  if( rc ) return rc==SQLITE_DONE ? SQLITE_OK : rc;
  rc = fulmarWrites(pCur);
  if( rc ) return rc;
  if( pCur->pKeyInfo==0 && p->hasIncrblobCur ){
    fulmarEndBlobs(p, pCur->pgnoRoot, pCur->pFulmar->iRow, 0);
  }
  rc = fulmar_delete(p->pFulmar, pCur->pFulmar);
  pCur->eState = rc==SQLITE_OK ? CURSOR_REQUIRESEEK : CURSOR_INVALID;
  return rc;
}

SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  return pCur->pFulmar ? pCur->pFulmar->iRow : original_sqlite3BtreeIntegerKey(pCur);
}

SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  return pCur->pFulmar ? 0 : original_sqlite3BtreeOffset(pCur);
}

SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  return pCur->pFulmar ? fulmarLoaded(pCur)->nData : original_sqlite3BtreePayloadSize(pCur);
}

SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreePayloadFetch(pCur, pAmt);
  *pAmt = fulmarLoaded(pCur)->nData;
  return pCur->pFulmar->pData;
}

SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreePayload(pCur, offset, amt, pBuf);
  if( (u64)offset+amt>fulmarLoaded(pCur)->nData ) return SQLITE_CORRUPT_BKPT;
  memcpy(pBuf, pCur->pFulmar->pData+offset, amt);
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreePayloadChecked(pCur, offset, amt, pBuf);
  rc = fulmarRestore(pCur);
  if( rc ) return rc==SQLITE_DONE ? SQLITE_ABORT : rc;
  return sqlite3BtreePayload(pCur, offset, amt, pBuf);
}

SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *z){
  int rc;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreePutData(pCur, offset, amt, z);
  rc = fulmarRestore(pCur);
  if( rc ) return rc==SQLITE_DONE ? SQLITE_ABORT : rc;
  rc = fulmarWrites(pCur);
  if( rc ) return rc;
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  rc = fulmar_overwrite(pCur->pBtree->pFulmar, pCur->pFulmar, offset, z, amt);
  pCur->eState = CURSOR_REQUIRESEEK;
  return rc;
}

SQLITE_PRIVATE sqlite3_int64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  return pCur->pFulmar ? 0x7fffffff : original_sqlite3BtreeMaxRecordSize(pCur);
}

SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *pCur, i64 *pnEntry){
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeCount(db, pCur, pnEntry);
  *pnEntry = 0;
  return fulmar_count(pCur->pBtree->pFulmar, pCur->pgnoRoot, pnEntry);
}

SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *pCur){
  i64 n = 0;
  if( pCur->pFulmar==0 ) return original_sqlite3BtreeRowCountEst(pCur);
  if( pCur->eState!=CURSOR_VALID ) return 0;
  return fulmar_count(pCur->pBtree->pFulmar, pCur->pgnoRoot, &n)==SQLITE_OK ? n : -1;
}

/*
** Copies the record under pSrc to be inserted through pDest. Unless both are
** SQLite's own, it is put by in pDest, and sqlite3BtreeInsert inserts it as any
** other.
*/
SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  u32 n;
  if( pDest->pFulmar==0 && pSrc->pFulmar==0 ){
    return original_sqlite3BtreeTransferRow(pDest, pSrc, iKey);
  }
  n = sqlite3BtreePayloadSize(pSrc);
  if( n>pDest->szFulmarStash || pDest->aFulmarStash==0 ){
    u8 *aNew = sqlite3_realloc64(pDest->aFulmarStash, (u64)n+64);
    if( aNew==0 ) return SQLITE_NOMEM_BKPT;
    pDest->aFulmarStash = aNew;
    pDest->szFulmarStash = n;
  }
  pDest->nFulmarStash = n;
  return sqlite3BtreePayload(pSrc, 0, n, pDest->aFulmarStash);
}
