//! The changes to SQLite's amalgamation.
//!
//! Each function of btree.c that is *taken* is renamed inside btree.c by a macro, `sqlite3BtreeNext` to
//! `original_sqlite3BtreeNext`; the rest of SQLite then calls the function of the same name in `c/`, which serves a
//! Fulmar database itself and passes everything else on to the original. Calls within btree.c stay where they are.
//! The other changes are small insertions. Every place is found by its text, which must occur exactly once: another
//! version of SQLite fails to build here, with the name of the place, rather than somewhere at run time.

/// Functions of btree.c with a handle (`Btree*`) as subject, then those with a cursor.
const TAKEN: &[&str] = &[
    "sqlite3BtreeOpen",
    "sqlite3BtreeClose",
    "sqlite3BtreeBeginTrans",
    "sqlite3BtreeCommitPhaseOne",
    "sqlite3BtreeCommitPhaseTwo",
    "sqlite3BtreeCommit",
    "sqlite3BtreeRollback",
    "sqlite3BtreeBeginStmt",
    "sqlite3BtreeSavepoint",
    "sqlite3BtreeCreateTable",
    "sqlite3BtreeDropTable",
    "sqlite3BtreeClearTable",
    "sqlite3BtreeTripAllCursors",
    "sqlite3BtreeGetMeta",
    "sqlite3BtreeUpdateMeta",
    "sqlite3BtreeIntegrityCheck",
    "sqlite3BtreeNewDb",
    "sqlite3BtreeGetFilename",
    "sqlite3BtreeSetAutoVacuum",
    "sqlite3BtreeSetVersion",
    "sqlite3BtreeIncrVacuum",
    "sqlite3BtreeSetPagerFlags",
    "sqlite3BtreeCursor",
    "sqlite3BtreeCloseCursor",
    "sqlite3BtreeClearTableOfCursor",
    "sqlite3BtreeTableMoveto",
    "sqlite3BtreeIndexMoveto",
    "sqlite3BtreeCursorRestore",
    "sqlite3BtreeFirst",
    "sqlite3BtreeLast",
    "sqlite3BtreeNext",
    "sqlite3BtreePrevious",
    "sqlite3BtreeIsEmpty",
    "sqlite3BtreeInsert",
    "sqlite3BtreeDelete",
    "sqlite3BtreeIntegerKey",
    "sqlite3BtreeOffset",
    "sqlite3BtreePayload",
    "sqlite3BtreePayloadFetch",
    "sqlite3BtreePayloadSize",
    "sqlite3BtreePayloadChecked",
    "sqlite3BtreePutData",
    "sqlite3BtreeMaxRecordSize",
    "sqlite3BtreeRowCountEst",
    "sqlite3BtreeCount",
    "sqlite3BtreeTransferRow",
];

/// An insertion or replacement at a place outside the functions taken.
struct Edit {
    /// What the place is, for the message when it is not found.
    place: &'static str,
    /// The text there.
    find: &'static str,
    /// What stands there afterwards.
    put: &'static str,
}

/// In the order of the amalgamation.
const EDITS: &[Edit] = &[
    Edit {
        place: "struct KeyInfo: how many leading fields of an index are unique",
        find: "  u16 nAllField;      /* Total columns, including key plus others */\n",
        put: "  u16 nAllField;      /* Total columns, including key plus others */\n\
              \x20 u16 nFulmarUnique;  /* Leading columns of a unique index, or 0 */\n",
    },
    Edit {
        place: "struct Btree: the handle",
        find: "struct Btree {\n",
        put: "struct Btree {\n  FulmarHandle *pFulmar;  /* What serves it, or 0 for an ordinary database */\n\
              \x20 const char *zFulmarName;/* Its name, as from sqlite3_create_filename */\n",
    },
    Edit {
        place: "struct BtCursor: the cursor, among the fields that start as zero",
        find: "  void *pKey;               /* Saved key that was cursor last known position */\n",
        put: "  void *pKey;               /* Saved key that was cursor last known position */\n\
              \x20 FulmarCursor *pFulmar;    /* What serves it, or 0 in an ordinary database */\n\
              \x20 u8 *aFulmarStash;         /* A record that waits to be inserted */\n\
              \x20 u32 nFulmarStash;         /* Its size */\n\
              \x20 u32 szFulmarStash;        /* How much fits */\n",
    },
    Edit {
        place: "struct Vdbe: how far the commit of a statement has come",
        find: "  bft haveEqpOps:1;       /* Bytecode supports EXPLAIN QUERY PLAN */\n",
        put: "  bft haveEqpOps:1;       /* Bytecode supports EXPLAIN QUERY PLAN */\n\
              \x20 bft bFulmarLeft:1;      /* It wrote, and takes part in no transaction any more */\n\
              \x20 bft bFulmarPartly:1;    /* One of several databases of ours has committed */\n",
    },
    Edit {
        place: "sqlite3_serialize: databases without pages",
        find: "  pBt = db->aDb[iDb].pBt;\n  if( pBt==0 ) goto serialize_out;\n",
        put: "  pBt = db->aDb[iDb].pBt;\n  if( pBt==0 ) goto serialize_out;\n  if( fulmarServes(pBt) ){\n\
              \x20   if( (mFlags & SQLITE_SERIALIZE_NOCOPY)==0 ) pOut = fulmarSerialize(db, zSchema, piSize);\n\
              \x20   goto serialize_out;\n  }\n",
    },
    Edit {
        place: "sqlite3_backup_step: databases without pages",
        find: "  rc = p->rc;\n  if( !isFatalError(rc) ){\n    Pager * const pSrcPager",
        put: "  rc = p->rc;\n  if( fulmarTakesPart(p) ){\n    rc = fulmarBackup(p);\n\
              \x20 }else if( !isFatalError(rc) ){\n    Pager * const pSrcPager",
    },
    Edit {
        place: "vdbeCommit: the shadow pager has nothing to lock",
        find: "      rc = sqlite3PagerExclusiveLock(pPager);\n      sqlite3BtreeLeave(pBt);\n",
        put: "      if( !fulmarServes(pBt) ) rc = sqlite3PagerExclusiveLock(pPager);\n      sqlite3BtreeLeave(pBt);\n",
    },
    Edit {
        place: "vdbeCommit: ours first, as only they can lose a conflict",
        find: "      return SQLITE_CONSTRAINT_COMMITHOOK;\n    }\n  }\n",
        put: "      return SQLITE_CONSTRAINT_COMMITHOOK;\n    }\n  }\n  rc = fulmarCommitFirst(db, p);\n  if( rc ) return rc;\n",
    },
    Edit {
        place: "sqlite3VdbeHalt: why a commit failed",
        find: "          sqlite3SystemError(db, rc);\n          p->rc = rc;\n          sqlite3RollbackAll(db, SQLITE_OK);\n",
        put: "          sqlite3SystemError(db, rc);\n          p->rc = rc;\n          fulmarExplainCommit(p, rc);\n\
              \x20         sqlite3RollbackAll(db, SQLITE_OK);\n",
    },
    Edit {
        place: "sqlite3VdbeHalt: a statement that has ended its transaction before its rows",
        find: "  if( !p->readOnly ) db->nVdbeWrite--;\n  if( p->bIsReader ) db->nVdbeRead--;\n",
        put: "  if( !p->readOnly ) db->nVdbeWrite--;\n  if( p->bIsReader ) db->nVdbeRead--;\n\
              \x20 if( p->bFulmarLeft ) fulmarHaltLeft(p);\n",
    },
    Edit {
        place: "sqlite3_step: what becomes of a statement that loses conflicts",
        find: "  int cnt = 0;             /* Counter to prevent infinite loop of reprepares */\n",
        put: "  int cnt;                 /* Counter to prevent infinite loop of reprepares */\n\
              \x20 FulmarRetry sRetry = {0, 0, 0, 0};\n",
    },
    Edit {
        place: "sqlite3_step: a statement may be run again, and each time prepared again",
        find: "  while( (rc = sqlite3Step(v))==SQLITE_SCHEMA\n",
        put: "  do{\n  cnt = 0;\n  while( (rc = fulmarStep(v, &sRetry))==SQLITE_SCHEMA\n",
    },
    Edit {
        place: "sqlite3_step: run again a statement whose own transaction lost a conflict",
        find: "    assert( v->expired==0 );\n  }\n",
        put: "    assert( v->expired==0 );\n  }\n  }while( fulmarRunsAgain(v, &sRetry, rc) );\n",
    },
    Edit {
        place: "sqlite3_stmt_readonly: a statement that has ended its transaction before its rows",
        find: "  return pStmt ? ((Vdbe*)pStmt)->readOnly : 1;\n",
        put: "  return pStmt ? ((Vdbe*)pStmt)->readOnly && !((Vdbe*)pStmt)->bFulmarLeft : 1;\n",
    },
    Edit {
        place: "OP_FkCheck: all is changed, and the first row not yet returned",
        find: "  if( (rc = sqlite3VdbeCheckFkImmediate(p))!=SQLITE_OK ){\n    goto abort_due_to_error;\n  }\n",
        put: "  if( (rc = sqlite3VdbeCheckFkImmediate(p))!=SQLITE_OK ){\n    goto abort_due_to_error;\n  }\n\
              \x20 if( (rc = fulmarCommitBeforeRows(p))!=SQLITE_OK ) goto abort_due_to_error;\n",
    },
    Edit {
        place: "OP_Transaction: the schema cookie of a statement that only this tells of changes",
        find: "    rc = sqlite3BtreeBeginTrans(pBt, pOp->p2, &iMeta);\n",
        put: "    rc = sqlite3BtreeBeginTrans(pBt, pOp->p2, &iMeta);\n\
              \x20   if( rc==SQLITE_OK && (pOp->p5 & OPFLAG_FULMAR_VERIFY) ){\n\
              \x20     rc = fulmarGetMeta(pBt, BTREE_SCHEMA_VERSION, (u32*)&iMeta);\n    }\n",
    },
    Edit {
        place: "OP_ReadCookie: what cannot be read is not zero",
        find: "  sqlite3BtreeGetMeta(db->aDb[iDb].pBt, iCookie, (u32 *)&iMeta);\n",
        put: "  rc = fulmarGetMeta(db->aDb[iDb].pBt, iCookie, (u32 *)&iMeta);\n  if( rc ) goto abort_due_to_error;\n",
    },
    Edit {
        place: "OP_OpenRead: a cursor that looks for the parent of a foreign key",
        find: "  sqlite3BtreeCursorHintFlags(pCur->uc.pCursor,\n                               (pOp->p5 & (OPFLAG_BULKCSR|OPFLAG_SEEKEQ)));\n  if( rc ) goto abort_due_to_error;\n",
        put: "  sqlite3BtreeCursorHintFlags(pCur->uc.pCursor,\n                               (pOp->p5 & (OPFLAG_BULKCSR|OPFLAG_SEEKEQ)));\n  if( rc ) goto abort_due_to_error;\n\
              \x20 if( pOp->p5 & OPFLAG_FULMAR_PARENT ) fulmarCursorSeeksParent(pCur->uc.pCursor);\n",
    },
    Edit {
        place: "OP_OpenRead: its flags",
        find: "  assert( pOp->opcode==OP_OpenWrite || pOp->p5==0 || pOp->p5==OPFLAG_SEEKEQ );\n",
        put: "  assert( pOp->opcode==OP_OpenWrite || pOp->p5==0 || pOp->p5==OPFLAG_SEEKEQ\n       || pOp->p5==OPFLAG_FULMAR_PARENT );\n",
    },
    Edit {
        place: "OP_SeekRowid, OP_NotExists: whether the row is meant to be there",
        find: "  rc = sqlite3BtreeTableMoveto(pCrsr, iKey, 0, &res);\n",
        put: "  if( pCrsr->pFulmar ) fulmarCursorSeeks(pCrsr, pOp->opcode==OP_SeekRowid);\n\
              \x20 rc = sqlite3BtreeTableMoveto(pCrsr, iKey, 0, &res);\n",
    },
    Edit {
        place: "OP_CreateBtree: an index beside its table",
        find: "  rc = sqlite3BtreeCreateTable(pDb->pBt, &pgno, pOp->p3);\n",
        put: "  if( pOp->p4type==P4_INT32 && fulmarServes(pDb->pBt) ){\n\
              \x20   rc = fulmarCreateIndex(pDb->pBt, &pgno, (Pgno)pOp->p4.i);\n  }else{\n\
              \x20   rc = sqlite3BtreeCreateTable(pDb->pBt, &pgno, pOp->p3);\n  }\n",
    },
    Edit {
        place: "OP_NewRowid: rowids that other transactions have picked",
        find: "    if( pC->useRandomRowid ){\n      /* IMPLEMENTATION-OF: R-07677-41881",
        put: "    if( !pC->useRandomRowid ){\n      rc = fulmarPickRowid(pC->uc.pCursor, &v);\n\
              \x20     if( rc ) goto abort_due_to_error;\n      if( pOp->p3 ) pMem->u.i = v;\n    }\n\
              \x20   if( pC->useRandomRowid ){\n      /* IMPLEMENTATION-OF: R-07677-41881",
    },
    Edit {
        place: "OP_Insert: the number of a table with AUTOINCREMENT",
        find: "  assert( BTREE_PREFORMAT==OPFLAG_PREFORMAT );\n  rc = sqlite3BtreeInsert(pC->uc.pCursor, &x,\n",
        put: "  assert( BTREE_PREFORMAT==OPFLAG_PREFORMAT );\n\
              \x20 if( pOp->p5 & OPFLAG_FULMAR_SEQUENCE ){\n    rc = fulmarRaiseSequence(pC->uc.pCursor, &x);\n\
              \x20   if( rc ) goto abort_due_to_error;\n  }\n  rc = sqlite3BtreeInsert(pC->uc.pCursor, &x,\n",
    },
    Edit {
        place: "OP_ParseSchema: root pages have no upper bound",
        find: "    initData.mxPage = sqlite3BtreeLastPage(db->aDb[iDb].pBt);\n",
        put: "    initData.mxPage = fulmarLastRoot(db->aDb[iDb].pBt);\n",
    },
    Edit {
        place: "OP_JournalMode: ours is none of SQLite's",
        find: "  pBt = db->aDb[pOp->p1].pBt;\n  pPager = sqlite3BtreePager(pBt);\n  eOld = sqlite3PagerGetJournalMode(pPager);\n",
        put: "  pBt = db->aDb[pOp->p1].pBt;\n  if( fulmarServes(pBt) ){\n    fulmarJournalMode(pOut);\n    break;\n  }\n\
              \x20 pPager = sqlite3BtreePager(pBt);\n  eOld = sqlite3PagerGetJournalMode(pPager);\n",
    },
    Edit {
        place: "OP_Pagecount: as many as what is stored would fill",
        find: "  pOut->u.i = sqlite3BtreeLastPage(db->aDb[pOp->p1].pBt);\n",
        put: "  rc = fulmarPageCount(db->aDb[pOp->p1].pBt, &pOut->u.i);\n  if( rc ) goto abort_due_to_error;\n",
    },
    Edit {
        place: "sqlite3VdbeExec: why an operation failed",
        find: "    sqlite3VdbeError(p, \"%s\", sqlite3ErrStr(rc));\n  }\n  p->rc = rc;\n  sqlite3SystemError(db, rc);\n",
        put: "    sqlite3VdbeError(p, \"%s\", fulmarErrorText(db, rc));\n  }\n  p->rc = rc;\n  sqlite3SystemError(db, rc);\n",
    },
    Edit {
        place: "sqlite3_blob_open: a handle whose closing commits",
        find: "      sqlite3VdbeAddOp4Int(v, OP_Transaction, iDb, wrFlag,\n",
        put: "      sqlite3VdbeAddOp4Int(v, OP_Transaction, iDb, fulmarBlobLevel(db, iDb, wrFlag),\n",
    },
    Edit {
        place: "attachFunc: why a database could not be opened",
        find: "        zErrDyn = sqlite3MPrintf(db, \"unable to open database: %s\", zFile);\n",
        put: "        zErrDyn = fulmarOpenErrorText(db, zFile);\n",
    },
    Edit {
        place: "sqlite3FinishCoding: a statement that only the schema cookie tells of changes",
        find: "      if( db->init.busy==0 ) sqlite3VdbeChangeP5(v, 1);\n      VdbeComment((v,\n",
        put: "      if( db->init.busy==0 ){\n\
              \x20       sqlite3VdbeChangeP5(v, fulmarOnlyVerifies(pParse) ? 1|OPFLAG_FULMAR_VERIFY : 1);\n      }\n\
              \x20     VdbeComment((v,\n",
    },
    Edit {
        place: "sqlite3BeginTransaction: BEGIN IMMEDIATE that is to be alone",
        find: "      }else if( type==TK_EXCLUSIVE ){\n        eTxnType = 2;  /* Exclusive txn */\n",
        put: "      }else if( type==TK_EXCLUSIVE || fulmarImmediateIsExclusive(pBt) ){\n        eTxnType = 2;  /* Exclusive txn */\n",
    },
    Edit {
        place: "sqlite3CreateIndex: of which table",
        find: "      sqlite3VdbeAddOp3(v, OP_CreateBtree, iDb, iMem, BTREE_BLOBKEY);\n",
        put: "      sqlite3VdbeAddOp4Int(v, OP_CreateBtree, iDb, iMem, BTREE_BLOBKEY, (int)pTab->tnum);\n",
    },
    Edit {
        place: "sqlite3KeyInfoOfIndex: unique indexes",
        find: "    assert( sqlite3KeyInfoIsWriteable(pKey) );\n    for(i=0; i<nCol; i++){\n      const char *zColl = pIdx->azColl[i];\n",
        put: "    assert( sqlite3KeyInfoIsWriteable(pKey) );\n    pKey->nFulmarUnique = IsUniqueIndex(pIdx) ? nKey : 0;\n\
              \x20   for(i=0; i<nCol; i++){\n      const char *zColl = pIdx->azColl[i];\n",
    },
    Edit {
        place: "fkLookupParent: the parent found in a table",
        find: "      sqlite3OpenTable(pParse, iCur, iDb, pTab, OP_OpenRead);\n      sqlite3VdbeAddOp3(v, OP_NotExists, iCur, 0, regTemp); VdbeCoverage(v);\n      sqlite3VdbeGoto(v, iOk);\n",
        put: "      sqlite3OpenTable(pParse, iCur, iDb, pTab, OP_OpenRead);\n      sqlite3VdbeChangeP5(v, OPFLAG_FULMAR_PARENT);\n\
              \x20     sqlite3VdbeAddOp3(v, OP_NotExists, iCur, 0, regTemp); VdbeCoverage(v);\n      sqlite3VdbeGoto(v, iOk);\n",
    },
    Edit {
        place: "fkLookupParent: the parent found in an index",
        find: "      sqlite3VdbeAddOp3(v, OP_OpenRead, iCur, pIdx->tnum, iDb);\n      sqlite3VdbeSetP4KeyInfo(pParse, pIdx);\n      for(i=0; i<nCol; i++){\n        sqlite3VdbeAddOp2(v, OP_Copy,\n               sqlite3TableColumnToStorage(pFKey->pFrom, aiCol[i])+1+regData,\n",
        put: "      sqlite3VdbeAddOp3(v, OP_OpenRead, iCur, pIdx->tnum, iDb);\n      sqlite3VdbeSetP4KeyInfo(pParse, pIdx);\n\
              \x20     sqlite3VdbeChangeP5(v, OPFLAG_FULMAR_PARENT);\n\
              \x20     for(i=0; i<nCol; i++){\n        sqlite3VdbeAddOp2(v, OP_Copy,\n               sqlite3TableColumnToStorage(pFKey->pFrom, aiCol[i])+1+regData,\n",
    },
    Edit {
        place: "sqlite3AutoincrementBegin: of several numbers for a table, the largest",
        find: "      /* 1  */ {OP_Rewind,  0, 10, 0},\n      /* 2  */ {OP_Column,  0,  0, 0},\n\
              \x20     /* 3  */ {OP_Ne,      0,  9, 0},\n      /* 4  */ {OP_Rowid,   0,  0, 0},\n\
              \x20     /* 5  */ {OP_Column,  0,  1, 0},\n      /* 6  */ {OP_AddImm,  0,  0, 0},\n\
              \x20     /* 7  */ {OP_Copy,    0,  0, 0},\n      /* 8  */ {OP_Goto,    0, 11, 0},\n\
              \x20     /* 9  */ {OP_Next,    0,  2, 0},\n      /* 10 */ {OP_Integer, 0,  0, 0},\n\
              \x20     /* 11 */ {OP_Close,   0,  0, 0}\n    };\n",
        put: "      /* 1  */ {OP_Rewind,  0, 10, 0},\n      /* 2  */ {OP_Column,  0,  0, 0},\n\
              \x20     /* 3  */ {OP_Ne,      0,  9, 0},\n      /* 4  */ {OP_Column,  0,  1, 0},\n\
              \x20     /* 5  */ {OP_AddImm,  0,  0, 0},\n      /* 6  */ {OP_Ge,      0,  9, 0},\n\
              \x20     /* 7  */ {OP_Rowid,   0,  0, 0},\n      /* 8  */ {OP_Copy,    0,  0, 0},\n\
              \x20     /* 9  */ {OP_Next,    0,  2, 0},\n      /* 10 */ {OP_Copy,    0,  0, 0},\n\
              \x20     /* 11 */ {OP_NotNull, 0, 13, 0},\n      /* 12 */ {OP_Integer, 0,  0, 0},\n\
              \x20     /* 13 */ {OP_Close,   0,  0, 0}\n    };\n\
              \x20   int iFound = ++pParse->nMem;  /* Register of a row's name, then number */\n",
    },
    Edit {
        place: "sqlite3AutoincrementBegin: the registers of that",
        find: "    aOp[2].p3 = memId;\n    aOp[3].p1 = memId-1;\n    aOp[3].p3 = memId;\n\
              \x20   aOp[3].p5 = SQLITE_JUMPIFNULL;\n    aOp[4].p2 = memId+1;\n    aOp[5].p3 = memId;\n\
              \x20   aOp[6].p1 = memId;\n    aOp[7].p2 = memId+2;\n    aOp[7].p1 = memId;\n    aOp[10].p2 = memId;\n",
        put: "    aOp[2].p3 = iFound;\n    aOp[3].p1 = memId-1;\n    aOp[3].p3 = iFound;\n\
              \x20   aOp[3].p5 = SQLITE_JUMPIFNULL;\n    aOp[4].p3 = iFound;\n    aOp[5].p1 = iFound;\n\
              \x20   aOp[6].p1 = iFound;\n    aOp[6].p3 = memId;\n    aOp[7].p2 = memId+1;\n\
              \x20   aOp[8].p1 = iFound;\n    aOp[8].p2 = memId;\n    aOp[10].p1 = memId;\n    aOp[10].p2 = memId+2;\n\
              \x20   aOp[11].p1 = memId;\n    aOp[12].p2 = memId;\n",
    },
    Edit {
        place: "autoIncrementEnd: writes that do not conflict",
        find: "    aOp[3].p5 = OPFLAG_APPEND;\n    sqlite3ReleaseTempReg(pParse, iRec);\n",
        put: "    aOp[3].p5 = OPFLAG_APPEND | OPFLAG_FULMAR_SEQUENCE;\n    sqlite3ReleaseTempReg(pParse, iRec);\n",
    },
    Edit {
        place: "sqlite3InitOne: why no transaction begins",
        find: "      sqlite3SetString(pzErrMsg, db, sqlite3ErrStr(rc));\n",
        put: "      sqlite3SetString(pzErrMsg, db, fulmarErrorText(db, rc));\n",
    },
    Edit {
        place: "sqlite3InitOne: what cannot be read is not zero, and is not waited for again",
        find: "    sqlite3BtreeGetMeta(pDb->pBt, i+1, (u32 *)&meta[i]);\n",
        put: "    rc = fulmarGetMeta(pDb->pBt, i+1, (u32 *)&meta[i]);\n    if( rc!=SQLITE_OK ){\n\
              \x20     sqlite3SetString(pzErrMsg, db, fulmarErrorText(db, rc));\n      goto initone_error_out;\n    }\n",
    },
    Edit {
        place: "sqlite3InitOne: root pages have no upper bound",
        find: "  initData.mxPage = sqlite3BtreeLastPage(pDb->pBt);\n",
        put: "  initData.mxPage = fulmarLastRoot(pDb->pBt);\n",
    },
    Edit {
        place: "sqlite3RunVacuum: nothing to do in place",
        find: "  saved_openFlags = db->openFlags;\n  if( pOut ){\n    if( sqlite3_value_type(pOut)!=SQLITE_TEXT ){\n",
        put: "  if( pOut==0 && fulmarServes(db->aDb[iDb].pBt) ) return SQLITE_OK;\n\
              \x20 saved_openFlags = db->openFlags;\n  if( pOut ){\n    if( sqlite3_value_type(pOut)!=SQLITE_TEXT ){\n",
    },
    Edit {
        place: "sqlite3RunVacuum: VACUUM INTO a database that exists",
        find: "    if( id->pMethods!=0 && (sqlite3OsFileSize(id, &sz)!=SQLITE_OK || sz>0) ){\n",
        put: "    if( fulmarRefusesOutput(db, pTemp)\n     || (id->pMethods!=0 && (sqlite3OsFileSize(id, &sz)!=SQLITE_OK || sz>0)) ){\n",
    },
    Edit {
        place: "sqlite3RunVacuum: replacing what a database holds",
        find: "  rc = sqlite3BtreeBeginTrans(pMain, pOut==0 ? 2 : 0, 0);\n  if( rc!=SQLITE_OK ) goto end_of_vacuum;\n",
        put: "  rc = sqlite3BtreeBeginTrans(pMain, pOut==0 ? 2 : 0, 0);\n  if( rc!=SQLITE_OK ) goto end_of_vacuum;\n\
              \x20 rc = fulmarEmptyOutput(db, nDb);\n  if( rc!=SQLITE_OK ) goto end_of_vacuum;\n",
    },
    Edit {
        place: "openDatabase: why a database could not be opened",
        find: "    sqlite3Error(db, rc);\n    goto opendb_out;\n  }\n  sqlite3BtreeEnter(db->aDb[0].pBt);\n",
        put: "    fulmarOpenError(db, rc);\n    goto opendb_out;\n  }\n  sqlite3BtreeEnter(db->aDb[0].pBt);\n",
    },
    Edit {
        place: "sqlite3Pragma: PragTyp_BUSY_TIMEOUT",
        find: "      sqlite3_busy_timeout(db, n);\n    }\n    returnSingleInt(v, db->busyTimeout);\n",
        put: "      sqlite3_busy_timeout(db, n);\n      fulmarBusyTimeout(db);\n    }\n    returnSingleInt(v, db->busyTimeout);\n",
    },
    Edit {
        place: "sqlite3_file_control: SQLITE_FCNTL_DATA_VERSION",
        find: "      *(unsigned int*)pArg = sqlite3PagerDataVersion(pPager);\n",
        put: "      *(unsigned int*)pArg = fulmarServes(pBtree) ? fulmarDataVersion(pBtree) : sqlite3PagerDataVersion(pPager);\n",
    },
    Edit {
        place: "sqlite3_file_control: an operation of ours",
        find: "    }else if( op==SQLITE_FCNTL_RESET_CACHE ){\n",
        put: "    }else if( op==FULMAR_FCNTL_ROUND_TRIPS && fulmarServes(pBtree) ){\n\
              \x20     *(sqlite3_int64*)pArg = fulmarRoundTrips(pBtree);\n      rc = SQLITE_OK;\n\
              \x20   }else if( op==SQLITE_FCNTL_PRAGMA && fulmarServes(pBtree) ){\n\
              \x20     rc = fulmarPragma(db, pBtree, (char**)pArg);\n\
              \x20   }else if( op==SQLITE_FCNTL_RESET_CACHE ){\n",
    },
];

/// The amalgamation `text` with its seams open: `seams` declares what the edits call, `tail` defines it.
pub(crate) fn open_up(text: &str, seams: &str, tail: &str) -> String {
    let mut out = text.replace("\r\n", "\n");
    for edit in EDITS {
        replace_once(&mut out, edit.place, edit.find, edit.put);
    }
    let header = region(&out, "btree.h").to_owned();
    let (mut renames, mut names_again) = (String::new(), String::new());
    for name in TAKEN {
        renames.push_str(&format!("#define {name} original_{name}\n"));
        names_again.push_str(&format!("#undef {name}\n"));
    }
    for name in TAKEN {
        renames.push_str(&prototype(&header, name));
    }
    let begin = marker(&out, "Begin file btree.c ");
    replace_once(&mut out, "the beginning of btree.c", &begin, &format!("{begin}\n{renames}"));
    let end = marker(&out, "End of btree.c ");
    replace_once(&mut out, "the end of btree.c", &end, &format!("{end}\n{names_again}"));
    let header_end = marker(&out, "End of btree.h ");
    replace_once(&mut out, "the end of btree.h", &header_end, &format!("{header_end}\n{seams}"));
    out.push_str(tail);
    out
}

fn replace_once(text: &mut String, place: &str, find: &str, put: &str) {
    let found = text.matches(find).count();
    assert!(found == 1, "SQLite's source has {found} places like \"{place}\", not one: another version?");
    *text = text.replacen(find, put, 1);
}

/// The line that marks where the amalgamation includes a file.
fn marker(text: &str, words: &str) -> String {
    let found: Vec<&str> =
        text.lines().filter(|l| l.starts_with("/******") && l.contains(&format!(" {words}"))).collect();
    assert!(found.len() == 1, "SQLite's source has {} lines that say \"{words}\", not one", found.len());
    found[0].to_owned()
}

fn region<'a>(text: &'a str, file: &str) -> &'a str {
    let (begin, end) =
        (marker(text, &format!("Begin file {file} ")), marker(text, &format!("End of {file} ")));
    let rest = text.split_once(&begin).map_or("", |(_, rest)| rest);
    rest.split_once(&end).map_or("", |(body, _)| body)
}

/// The prototype of `name`, whose declaration starts a line of btree.h.
fn prototype(header: &str, name: &str) -> String {
    let mut from = 0;
    for line in header.split_inclusive('\n') {
        if line.starts_with("SQLITE_PRIVATE ") && line.contains(&format!("{name}(")) {
            let declaration = &header[from..];
            let end = declaration.find(");").unwrap_or_else(|| panic!("btree.h: {name} has no end"));
            return format!("{}\n", &declaration[..end + 2]);
        }
        from += line.len();
    }
    panic!("btree.h does not declare {name}");
}
