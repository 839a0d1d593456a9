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
** conflict then still rolls everything back.
*/
static int fulmarCommitFirst(sqlite3 *db){
  int rc = SQLITE_OK;
  int i;
  for(i=0; rc==SQLITE_OK && i<db->nDb; i++){
    if( fulmarServes(db->aDb[i].pBt) ) rc = sqlite3BtreeCommitPhaseOne(db->aDb[i].pBt, 0);
  }
  return rc;
}

/* A commit has failed: leaves the reason with the statement that wanted it. */
static void fulmarExplainCommit(Vdbe *p, int rc){
  const char *z = fulmarErrorText(p->db, rc);
  if( p->zErrMsg==0 && z!=sqlite3ErrStr(rc) ) sqlite3VdbeError(p, "%s", z);
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

/* A rowid for a new row that no other open transaction has given to one. */
static i64 fulmarPickRowid(BtCursor *pCur, i64 iNext){
  if( pCur->pFulmar==0 ) return iNext;
  return fulmar_pick_rowid(pCur->pBtree->pFulmar, pCur->pgnoRoot, iNext);
}

/* An INSERT is about to write a row of sqlite_sequence. */
static int fulmarRaiseSequence(BtCursor *pCur, const BtreePayload *pX){
  if( pCur->pFulmar==0 ) return SQLITE_OK;
  return fulmar_raise_sequence(pCur->pBtree->pFulmar, pCur->pgnoRoot, pX->nKey, pX->pData, pX->nData);
}

/* How often a statement is run again, and from when on it presses. */
#define FULMAR_MAX_RETRY   100
#define FULMAR_PRESS_RETRY 3

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
** Steps a statement. One that is a transaction of its own, and loses a conflict
** before it has returned a row, is run again. So is one that has changed rows
** without looking whether they are there, and fails in whatever way: looking.
*/
static int fulmarStep(Vdbe *v){
  sqlite3 *db = v->db;
  int bAlone = db->autoCommit && v->eVdbeState!=VDBE_RUN_STATE && db->nVdbeActive==0;
  int bAssumes = bAlone && !v->readOnly && v->nResColumn==0 && fulmarServes(db->aDb[0].pBt);
  FulmarHandle *pAssumes = bAssumes ? db->aDb[0].pBt->pFulmar : 0;
  int bReads = bAlone && v->readOnly && fulmarServes(db->aDb[0].pBt)
            && fulmar_is_far(db->aDb[0].pBt->pFulmar) && fulmarReadsOneRow(v);
  FulmarHandle *pReads = bReads ? db->aDb[0].pBt->pFulmar : 0;
  FulmarHandle *pQueued = 0;
  int nRetry = 0;
  int rc;
  if( pAssumes ) fulmar_let_assume(pAssumes, 1);
  if( pReads ) fulmar_let_read_one_row(pReads, 1);
  rc = sqlite3Step(v);
  if( pReads ) fulmar_let_read_one_row(pReads, 0);
  if( pAssumes ){
    int bWrong = v->rc!=SQLITE_OK && fulmar_has_assumed(pAssumes);
    fulmar_let_assume(pAssumes, 0);
    if( bWrong ){
      sqlite3_reset((sqlite3_stmt*)v);
      rc = sqlite3Step(v);
    }
  }
  while( bAlone && v->rc==SQLITE_BUSY_SNAPSHOT && rc!=SQLITE_ROW && nRetry++<FULMAR_MAX_RETRY ){
    if( pQueued==0 ){
      FulmarHandle *pLoser = fulmarLoser(db);
      if( pLoser && fulmar_queue_to_retry(pLoser) ) pQueued = pLoser;
    }
    if( pQueued && nRetry==FULMAR_PRESS_RETRY ) fulmar_press(pQueued);
    sqlite3_reset((sqlite3_stmt*)v);
    rc = sqlite3Step(v);
  }
  if( pQueued ) fulmar_leave_retry(pQueued);
  return rc;
}
