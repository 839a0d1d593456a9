use DBI;
my $db = DBI->connect("dbi:SQLite:dbname=$ARGV[0]", "", "", {RaiseError => 1});
$db->do("CREATE TABLE IF NOT EXISTS bird(name TEXT UNIQUE, seen INT)");
$db->begin_work;
$db->do("INSERT INTO bird VALUES (?, 1) ON CONFLICT DO UPDATE SET seen = seen + 1", {}, "fulmar");
$db->commit;
print $db->selectrow_array("SELECT sqlite_version() || ' ' || seen FROM bird"), "\n";
