package require sqlite3
sqlite3 db [lindex $argv 0]
set name fulmar
db eval {CREATE TABLE IF NOT EXISTS bird(name TEXT UNIQUE, seen INT)}
db transaction {
    db eval {INSERT INTO bird VALUES ($name, 1) ON CONFLICT DO UPDATE SET seen = seen + 1}
}
puts [db onecolumn {SELECT sqlite_version() || ' ' || seen FROM bird}]
