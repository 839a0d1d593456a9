/*
** What the changed places outside btree.c call.
*/

/*
** What to say about a result code: our own message if the failure was ours.
*/
static const char *fulmarErrorText(sqlite3 *db, int rc){
  int i;
  for(i=0; i<db->nDb; i++){
    Btree *p = db->aDb[i].pBt;
    const char *z = fulmarServes(p) ? fulmar_failure(p->pFulmar, rc) : 0;
    if( z ) return z;
  }
  return sqlite3ErrStr(rc);
}

/*
** Commits our databases of a transaction, before the ordinary ones: losing a
** conflict then still rolls everything back, unless one of ours has committed
** before another.
*/
static int fulmarCommitFirst(sqlite3 *db, Vdbe *v){
  int rc = SQLITE_OK;
  int nWritten = 0;
  int i;
  for(i=0; rc==SQLITE_OK && i<db->nDb; i++){
    Btree *p = db->aDb[i].pBt;
    if( !fulmarServes(p) || p->inTrans!=TRANS_WRITE ) continue;
    v->bFulmarPartly = nWritten++>0;
    rc = sqlite3BtreeCommitPhaseOne(p, 0);
  }
  return rc;
}

/* A commit has failed: leaves the reason with the statement that wanted it. */
static void fulmarExplainCommit(Vdbe *p, int rc){
  const char *z = fulmarErrorText(p->db, rc);
  if( p->zErrMsg==0 && z!=sqlite3ErrStr(rc) ) sqlite3VdbeError(p, "%s", z);
}

/* Whether the connection has a database of ours; with bWrites, one with a write transaction. */
static int fulmarHas(sqlite3 *db, int bWrites){
  int i;
  for(i=0; i<db->nDb; i++){
    Btree *p = db->aDb[i].pBt;
    if( fulmarServes(p) && (bWrites==0 || p->inTrans==TRANS_WRITE) ) return 1;
  }
  return 0;
}

/*
** A statement that counts as a writer takes part in no transaction any more,
** though it still has rows to return: it does not count until it ends.
*/
static void fulmarLeave(Vdbe *p){
  sqlite3 *db = p->db;
  assert( p->eVdbeState==VDBE_RUN_STATE && !p->readOnly && p->bIsReader );
  db->nVdbeWrite--;
  db->nVdbeRead--;
  p->readOnly = 1;
  p->bIsReader = 0;
  p->bFulmarLeft = 1;
}

/* The end of a statement that has left its transaction. */
static void fulmarHaltLeft(Vdbe *p){
  if( p->changeCntOn ) sqlite3VdbeSetChanges(p->db, p->nChange);
  p->nChange = 0;
  p->readOnly = 0;
  p->bIsReader = 1;
  p->bFulmarLeft = 0;
}

/*
** OP_FkCheck: a statement has made all its changes, and is about to return rows
** (RETURNING, PRAGMA count_changes) from registers and a temporary table. If it
** is a transaction of its own, this commits as sqlite3VdbeHalt would later: many
** drivers ignore what sqlite3_reset and sqlite3_finalize say, and a commit that
** has lost must not have returned rows.
*/
static int fulmarCommitBeforeRows(Vdbe *p){
  sqlite3 *db = p->db;
  int rc;
  int i;
  if( db->autoCommit==0 || db->nVdbeWrite!=1 || sqlite3VtabInSync(db) || !fulmarHas(db, 1) ){
    return SQLITE_OK;
  }
  assert( p->pFrame==0 );
  for(i=0; i<p->nCursor; i++){
    VdbeCursor *pC = p->apCsr[i];
    if( pC && !pC->isEphemeral ){
      sqlite3VdbeFreeCursorNN(p, pC);
      p->apCsr[i] = 0;
    }
  }
  if( sqlite3VdbeCheckFkDeferred(p) ){
    rc = SQLITE_CONSTRAINT_FOREIGNKEY;
  }else if( db->flags & SQLITE_CorruptRdOnly ){
    rc = SQLITE_CORRUPT;
    db->flags &= ~SQLITE_CorruptRdOnly;
  }else{
    rc = vdbeCommit(db, p);
  }
  if( rc ){
    fulmarExplainCommit(p, rc);
    sqlite3RollbackAll(db, SQLITE_OK);
    p->nChange = 0;
  }else{
    db->nDeferredCons = 0;
    db->nDeferredImmCons = 0;
    db->flags &= ~(u64)SQLITE_DeferFKs;
    sqlite3CommitInternalChanges(db);
  }
  db->nStatement = 0;
  p->iStatement = 0;
  fulmarLeave(p);
  return rc;
}

/*
** Whether a statement that has returned a row counts as a writer and writes
** nothing: EXPLAIN, PRAGMA journal_mode, PRAGMA wal_checkpoint. While such a one
** is not reset, SQLite would put off every commit of the connection.
*/
static int fulmarOnlyCounts(const Vdbe *v){
  int i;
  if( v->readOnly ) return 0;
  for(i=0; v->explain==0 && i<v->nOp; i++){
    if( v->aOp[i].opcode==OP_Transaction && v->aOp[i].p2 ) return 0;
  }
  return fulmarHas(v->db, 0);
}

/*
** sqlite3_blob_open outside a transaction, to write: what is written is committed
** when the handle is closed, where few programs look at the answer. So that this
** commit cannot lose, it keeps other writers out, as in SQLite.
*/
static int fulmarBlobLevel(sqlite3 *db, int iDb, int wrFlag){
  int bAlone = db->autoCommit && db->nVdbeWrite==0 && fulmarServes(db->aDb[iDb].pBt);
  return wrFlag && bAlone ? 2 : wrFlag;
}

/* sqlite3_open has failed. */
static void fulmarOpenError(sqlite3 *db, int rc){
  const char *z = fulmar_open_failure(0);
  if( z ){
    sqlite3ErrorWithMsg(db, rc, "%s", z);
  }else{
    sqlite3Error(db, rc);
  }
}

/* ATTACH has failed. */
static char *fulmarOpenErrorText(sqlite3 *db, const char *zFile){
  const char *z = fulmar_open_failure(0);
  return z ? sqlite3MPrintf(db, "unable to open database: %s", z)
           : sqlite3MPrintf(db, "unable to open database: %s", zFile);
}

/*
** PRAGMA journal_mode: what comes nearest is WAL, whose readers and writer do
** not block each other either; programs that ask for it look at the answer.
*/
static void fulmarJournalMode(Mem *pOut){
  sqlite3VdbeMemSetStr(pOut, "wal", -1, SQLITE_UTF8, SQLITE_STATIC);
  sqlite3VdbeChangeEncoding(pOut, pOut->db ? ENC(pOut->db) : SQLITE_UTF8);
}

/* A rowid for a new row that no other open transaction has given to one: *piRow, or a larger one. */
static int fulmarPickRowid(BtCursor *pCur, i64 *piRow){
  if( pCur->pFulmar==0 ) return SQLITE_OK;
  return fulmar_pick_rowid(pCur->pBtree->pFulmar, pCur->pgnoRoot, piRow);
}

/*
** As sqlite3BtreeGetMeta(), where a failure can be told: SQLITE_SCHEMA if the
** statement was prepared for a schema that is not that of its snapshot.
*/
static int fulmarGetMeta(Btree *p, int i, u32 *pValue){
  if( fulmarServes(p) ){
    /* PRAGMA data_version tells of the snapshot, which is taken by then. */
    int rc = fulmar_meta(p->pFulmar, i==BTREE_DATA_VERSION ? BTREE_SCHEMA_VERSION : i, pValue);
    if( rc || i!=BTREE_DATA_VERSION ) return rc;
  }
  sqlite3BtreeGetMeta(p, i, pValue);
  return SQLITE_OK;
}

/*
** Whether a statement reads no table, but may depend on the schema: IF EXISTS,
** IF NOT EXISTS, PRAGMA table_info. No read of its own makes sure of the cookie.
*/
static int fulmarOnlyVerifies(const Parse *pParse){
  return pParse->nTab==0 && pParse->nVtabLock==0 && pParse->pVdbe->pProgram==0;
}

/* An INSERT is about to write a row of sqlite_sequence. */
static int fulmarRaiseSequence(BtCursor *pCur, const BtreePayload *pX){
  if( pCur->pFulmar==0 ) return SQLITE_OK;
  return fulmar_raise_sequence(pCur->pBtree->pFulmar, pCur->pgnoRoot, pX->nKey, pX->pData, pX->nData);
}

/*
** How often a statement is run again when it loses, and from when on it presses;
** and from when on one that is prepared for a schema that has changed meanwhile,
** which SQLite gives up after 50 times.
*/
#define FULMAR_MAX_RETRY    100
#define FULMAR_PRESS_RETRY  3
#define FULMAR_PRESS_SCHEMA 5

/* The handle whose commit lost a conflict just now. */
static FulmarHandle *fulmarLoser(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++){
    Btree *p = db->aDb[i].pBt;
    if( fulmarServes(p) && fulmar_failure(p->pFulmar, SQLITE_BUSY_SNAPSHOT) ) return p->pFulmar;
  }
  return 0;
}

/*
** Whether a statement seeks one row of the main database by its rowid, and does
** nothing else with any database. It has no loop, as every way to begin one is
** missing here.
*/
static int fulmarReadsOneRow(const Vdbe *v){
  int nSeek = 0;
  int i;
  for(i=0; i<v->nOp; i++){
    const VdbeOp *pOp = &v->aOp[i];
    switch( pOp->opcode ){
      case OP_Transaction:
        if( pOp->p1!=0 || pOp->p2!=0 ) return 0;
        break;
      case OP_OpenRead:
        if( pOp->p3!=0 ) return 0;
        break;
      case OP_SeekRowid: case OP_NotExists:
        nSeek++;
        break;
      case OP_Init: case OP_Goto: case OP_Halt: case OP_Noop: case OP_Explain:
      case OP_Variable: case OP_Null: case OP_Integer: case OP_Int64: case OP_Real:
      case OP_String8: case OP_String: case OP_Blob: case OP_Copy: case OP_SCopy:
      case OP_IntCopy: case OP_Move: case OP_MustBeInt: case OP_RealAffinity:
      case OP_Affinity: case OP_Cast: case OP_TypeCheck:
      case OP_Rowid: case OP_Column: case OP_Offset: case OP_ColumnsUsed:
      case OP_Eq: case OP_Ne: case OP_Lt: case OP_Le: case OP_Gt: case OP_Ge:
      case OP_If: case OP_IfNot: case OP_IsNull: case OP_NotNull: case OP_IsTrue:
      case OP_And: case OP_Or: case OP_Not: case OP_BitAnd: case OP_BitOr:
      case OP_BitNot: case OP_ShiftLeft: case OP_ShiftRight:
      case OP_Add: case OP_Subtract: case OP_Multiply: case OP_Divide:
      case OP_Remainder: case OP_Concat: case OP_ResultRow:
        break;
      default:
        return 0;
    }
  }
  return nSeek==1;
}

/*
** Whether a statement that has failed may begin again, whatever the reason: it has
** committed nothing, and nobody has interrupted it, which SQLite would forget.
*/
static int fulmarMayRunAgain(const Vdbe *v){
  return !v->bFulmarPartly && AtomicLoad(&v->db->u1.isInterrupted)==0;
}

/* Has others let a statement pass, with a turn if there is one, until it is done. */
static void fulmarPress(FulmarRetry *p, FulmarHandle *pHandle, int bPress){
  if( p->pQueued==0 && pHandle && fulmar_queue_to_retry(pHandle) ) p->pQueued = pHandle;
  if( p->pQueued && bPress ) fulmar_press(p->pQueued);
}

/*
** Somebody changes the schema again and again, and a statement that is prepared for
** it comes too late each time.
*/
static void fulmarMissedSchema(Vdbe *v, FulmarRetry *p){
  int i;
  if( ++p->nSchema<FULMAR_PRESS_SCHEMA ) return;
  for(i=0; i<v->db->nDb; i++){
    Btree *pBt = v->db->aDb[i].pBt;
    if( DbMaskTest(v->btreeMask, i) && fulmarServes(pBt) ){
      fulmarPress(p, pBt->pFulmar, 1);
      return;
    }
  }
}

/*
** Steps a statement. One that is a transaction of its own, and has changed rows
** without looking whether they are there, is run again, looking, if that may be
** why it fails. Active statements that have left their transaction are not in the
** way.
*/
static int fulmarStep(Vdbe *v, FulmarRetry *pRetry){
  sqlite3 *db = v->db;
  int bAlone = db->autoCommit && v->eVdbeState!=VDBE_RUN_STATE && db->nVdbeRead==0;
  int bAssumes = bAlone && !v->readOnly && v->nResColumn==0 && pRetry->nRetry==0
              && fulmarServes(db->aDb[0].pBt);
  FulmarHandle *pAssumes = bAssumes ? db->aDb[0].pBt->pFulmar : 0;
  int bReads = bAlone && v->readOnly && fulmarServes(db->aDb[0].pBt)
            && fulmar_is_far(db->aDb[0].pBt->pFulmar) && fulmarReadsOneRow(v);
  FulmarHandle *pReads = bReads ? db->aDb[0].pBt->pFulmar : 0;
  int rc;
  pRetry->bAlone = bAlone;
  v->bFulmarPartly = 0;
  if( pAssumes ) fulmar_let_assume(pAssumes, 1);
  if( pReads ) fulmar_let_read_one_row(pReads, 1);
  rc = sqlite3Step(v);
  if( pReads ) fulmar_let_read_one_row(pReads, 0);
  if( pAssumes ){
    int bWrong = v->rc!=SQLITE_OK && fulmar_was_misled(pAssumes, v->rc);
    fulmar_let_assume(pAssumes, 0);
    if( bWrong && fulmarMayRunAgain(v) ){
      sqlite3_reset((sqlite3_stmt*)v);
      rc = sqlite3Step(v);
    }
  }
  if( rc==SQLITE_ROW && fulmarOnlyCounts(v) ) fulmarLeave(v);
  if( rc==SQLITE_SCHEMA && bAlone ) fulmarMissedSchema(v, pRetry);
  return rc;
}

/*
** Whether a statement that has been stepped, to the result rc, is to be stepped
** from its beginning once more, since it is a transaction of its own and has lost
** a conflict; it commits before its first row, so none was returned. Whoever loses
** keeps its turn until it gets through, also while SQLite prepares it again: a
** change of the schema that is rolled back makes it do so each time.
*/
static int fulmarRunsAgain(Vdbe *v, FulmarRetry *p, int rc){
  if( p->bAlone && rc!=SQLITE_ROW && v->rc==SQLITE_BUSY_SNAPSHOT && fulmarMayRunAgain(v)
   && p->nRetry<FULMAR_MAX_RETRY
  ){
    p->nRetry++;
    fulmarPress(p, p->pQueued ? 0 : fulmarLoser(v->db), p->nRetry>=FULMAR_PRESS_RETRY);
    sqlite3_reset((sqlite3_stmt*)v);
    return 1;
  }
  if( p->pQueued ) fulmar_leave_retry(p->pQueued);
  return 0;
}
