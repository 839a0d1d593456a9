/*
** The functions of src/ffi.rs, in the same order. Result codes are SQLite's;
** SQLITE_DONE says that a cursor found nothing to stand on.
*/

/* The beginning of Cursor in src/cursor.rs. */
struct FulmarCursor {
  const u8 *pData;        /* The record on which it stands, until it moves; 0 if it was not looked at */
  u32 nData;
  i64 iRow;               /* The rowid, in a table */
};

/* RawValue in src/ffi.rs. */
typedef struct FulmarValue FulmarValue;
struct FulmarValue {
  int eKind;              /* One of FULMAR_NULL and so on */
  u32 n;                  /* Bytes of a text or blob */
  u32 nZero;              /* Zero bytes after a blob */
  i64 i;
  double r;
  const u8 *p;
};
#define FULMAR_NULL     0
#define FULMAR_INTEGER  1
#define FULMAR_REAL     2
#define FULMAR_TEXT     3
#define FULMAR_BLOB     4

/* How a field of an index compares. */
#define FULMAR_BINARY   0
#define FULMAR_NOCASE   1
#define FULMAR_RTRIM    2
#define FULMAR_DESC     4

int fulmar_redirects(const char *zName);
int fulmar_open(const char *zName, int mayWrite, int mayCreate, FulmarHandle**);
const char *fulmar_open_failure(int bForget);
void fulmar_close(FulmarHandle*);
const char *fulmar_name(const FulmarHandle*);
int fulmar_is_read_only(const FulmarHandle*);
int fulmar_fail(FulmarHandle*, int rc, const char *zMessage);
const char *fulmar_failure(const FulmarHandle*, int rc);
void fulmar_set_synced(FulmarHandle*, int);
int fulmar_begin(FulmarHandle*, int eLevel, int bKeepBase);
int fulmar_commit(FulmarHandle*);
int fulmar_end(FulmarHandle*, int bKeepReading);
int fulmar_open_savepoints(FulmarHandle*, int n);
int fulmar_release_savepoint(FulmarHandle*, int i);
int fulmar_undo_savepoint(FulmarHandle*, int i);
int fulmar_create_tree(FulmarHandle*, u32 iBeside, u32 *pRoot);
int fulmar_drop_tree(FulmarHandle*, u32 iRoot);
int fulmar_clear_tree(FulmarHandle*, u32 iRoot, i64 *pnEntry);
int fulmar_count(FulmarHandle*, u32 iRoot, i64 *pnEntry);
int fulmar_schema_cookie(FulmarHandle*, u32 *pCookie);
int fulmar_meta(FulmarHandle*, int i, u32 *pValue);
int fulmar_set_meta(FulmarHandle*, int i, u32 iValue);
u32 fulmar_data_version(const FulmarHandle*);
i64 fulmar_round_trips(const FulmarHandle*);
void fulmar_set_limit(const FulmarHandle*, i64 nMilliseconds);
void fulmar_heed(const FulmarHandle*, int *pbInterrupted);
int fulmar_bytes(FulmarHandle*, i64 *pnByte);
int fulmar_immediate_is_exclusive(const FulmarHandle*);
int fulmar_set_immediate(FulmarHandle*, const char *zValue);
int fulmar_has_content(FulmarHandle*);
int fulmar_empty(FulmarHandle*);
int fulmar_check(FulmarHandle*, u32 iRoot, void*, void(*xReport)(void*,const char*));
int fulmar_pick_rowid(FulmarHandle*, u32 iRoot, i64 *piRow);
int fulmar_raise_sequence(FulmarHandle*, u32 iRoot, i64 iRow, const u8*, int n);
int fulmar_queue_to_retry(const FulmarHandle*);
void fulmar_press(const FulmarHandle*);
void fulmar_leave_retry(const FulmarHandle*);
FulmarCursor *fulmar_cursor_open(FulmarHandle*, u32 iRoot);
int fulmar_cursor_on_index(FulmarHandle*, FulmarCursor*, const u8 *aField,
                           int nField, int nUnique, int eEncoding);
void fulmar_cursor_close(FulmarHandle*, FulmarCursor*);
int fulmar_first(FulmarHandle*, FulmarCursor*);
int fulmar_last(FulmarHandle*, FulmarCursor*);
int fulmar_next(FulmarHandle*, FulmarCursor*);
int fulmar_previous(FulmarHandle*, FulmarCursor*);
int fulmar_is_far(const FulmarHandle*);
void fulmar_let_read_one_row(FulmarHandle*, int);
void fulmar_let_assume(FulmarHandle*, int);
int fulmar_was_misled(const FulmarHandle*, int rc);
int fulmar_assume_row(FulmarHandle*, FulmarCursor*, i64 iRow);
void fulmar_load_row(FulmarHandle*, FulmarCursor*);
int fulmar_seek_row(FulmarHandle*, FulmarCursor*, i64 iRow, int bExact, int *pSide);
int fulmar_seek_entry(FulmarHandle*, FulmarCursor*, const FulmarValue*, int n,
                      int eWhenEqual, int *pSide, int *pEqual);
int fulmar_restore(FulmarHandle*, FulmarCursor*);
int fulmar_insert_row(FulmarHandle*, FulmarCursor*, i64 iRow, const u8*, int n, int nZero);
int fulmar_insert_entry(FulmarHandle*, FulmarCursor*, const u8*, i64 n);
int fulmar_overwrite(FulmarHandle*, FulmarCursor*, u32 iOffset, const u8*, u32 n);
int fulmar_delete(FulmarHandle*, FulmarCursor*);
int fulmar_keep(FulmarHandle*, FulmarCursor*);
