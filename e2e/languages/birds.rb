require "sqlite3"
db = SQLite3::Database.new(ARGV[0])
db.execute("CREATE TABLE IF NOT EXISTS bird(name TEXT UNIQUE, seen INT)")
db.transaction do
  db.execute("INSERT INTO bird VALUES (?, 1) ON CONFLICT DO UPDATE SET seen = seen + 1", ["fulmar"])
end
puts db.get_first_value("SELECT sqlite_version() || ' ' || seen FROM bird")
