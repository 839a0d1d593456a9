/*
** What the changed places of SQLite call. Inserted after btree.h; defined in
** handle.c, cursor.c, hooks.c and backup.c.
*/
typedef struct FulmarHandle FulmarHandle;
typedef struct FulmarCursor FulmarCursor;

/* OP_OpenRead: the cursor looks for the parent of a foreign key. */
#define OPFLAG_FULMAR_PARENT 0x20
/* OP_Transaction: the schema cookie is read, not remembered. */
#define OPFLAG_FULMAR_VERIFY 0x02
/* OP_Insert: it raises the number of a table with AUTOINCREMENT. */
#define OPFLAG_FULMAR_SEQUENCE 0x100

/*
** sqlite3_file_control: how many times the database has waited for servers, a
** sqlite3_int64. SQLite keeps numbers up to 100 for itself.
*/
#define FULMAR_FCNTL_ROUND_TRIPS 6714732

/* How sqlite3_step runs a statement again that loses conflicts. */
typedef struct FulmarRetry FulmarRetry;
struct FulmarRetry {
  FulmarHandle *pQueued;  /* Whose turn it has, or 0 */
  int nRetry;             /* How often it was run again */
  int nSchema;            /* How often the schema was another than it was prepared for */
  int bAlone;             /* Whether it is a transaction of its own, and begins now */
};

struct Parse;
struct Vdbe;
static int fulmarServes(Btree*);
static Pgno fulmarLastRoot(Btree*);
static u32 fulmarDataVersion(Btree*);
static i64 fulmarRoundTrips(Btree*);
static void fulmarBusyTimeout(sqlite3*);
static int fulmarPageCount(Btree*, i64*);
static int fulmarImmediateIsExclusive(Btree*);
static int fulmarPragma(sqlite3*, Btree*, char**);
static void fulmarOpenError(sqlite3*, int);
static char *fulmarOpenErrorText(sqlite3*, const char*);
static const char *fulmarErrorText(sqlite3*, int);
static void fulmarExplainCommit(struct Vdbe*, int);
static void fulmarJournalMode(sqlite3_value*);
static int fulmarStep(struct Vdbe*, FulmarRetry*);
static int fulmarRunsAgain(struct Vdbe*, FulmarRetry*, int);
static int fulmarCommitBeforeRows(struct Vdbe*);
static void fulmarHaltLeft(struct Vdbe*);
static int fulmarBlobLevel(sqlite3*, int, int);
static int fulmarCreateIndex(Btree*, Pgno*, Pgno);
static void fulmarCursorSeeksParent(BtCursor*);
static void fulmarCursorSeeks(BtCursor*, int);
static int fulmarPickRowid(BtCursor*, i64*);
static int fulmarGetMeta(Btree*, int, u32*);
static int fulmarOnlyVerifies(const struct Parse*);
static int fulmarRaiseSequence(BtCursor*, const BtreePayload*);
static int fulmarCommitFirst(sqlite3*, struct Vdbe*);
static int fulmarRefusesOutput(sqlite3*, Btree*);
static int fulmarEmptyOutput(sqlite3*, int);
static int fulmarTakesPart(sqlite3_backup*);
static int fulmarBackup(sqlite3_backup*);
static unsigned char *fulmarSerialize(sqlite3*, const char*, sqlite3_int64*);
