<?php
$name = $argv[1];
$pdo = new PDO("sqlite:$name");
$pdo->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$pdo->exec("CREATE TABLE IF NOT EXISTS bird(name TEXT UNIQUE, seen INT)");
$pdo->beginTransaction();
$pdo->prepare("INSERT INTO bird VALUES (?, 1) ON CONFLICT DO UPDATE SET seen = seen + 1")->execute(["fulmar"]);
$pdo->commit();
$sqlite = new SQLite3($name);
echo $sqlite->querySingle("SELECT sqlite_version() || ' ' || seen FROM bird"), "\n";
