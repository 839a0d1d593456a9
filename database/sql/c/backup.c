/*
** Copies of whole databases, page by page in SQLite.
*/

/* Whether a backup cannot be made because one side has no pages. */
static int fulmarRefusesBackup(sqlite3 *pErrorDb, Btree *pDest, Btree *pSrc){
  if( !fulmarServes(pDest) && !fulmarServes(pSrc) ) return 0;
  sqlite3ErrorWithMsg(pErrorDb, SQLITE_ERROR,
      "a fulmar: database has no pages to copy; use VACUUM INTO 'file' or VACUUM INTO 'fulmar:directory'");
  return 1;
}
