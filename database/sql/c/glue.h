/*
** What the functions of src/ffi take and give, whose prototypes follow: build/header.rs makes
** them. Result codes are SQLite's; SQLITE_DONE says that a cursor found nothing to stand on.
*/

/* The beginning of Cursor in src/cursor.rs. */
struct FulmarCursor {
  const u8 *pData;        /* The record on which it stands, until it moves; 0 if it was not looked at */
  u32 nData;
  i64 iRow;               /* The rowid, in a table */
};

/* RawValue in src/ffi/cursor.rs. */
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
