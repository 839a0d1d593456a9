use super::*;
use tempfile::TempDir;

/// A file with these records.
fn written(records: &[&[u8]]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let (mut log, none) = Log::open(&path).expect("a new one");
    assert!(none.is_empty());
    records.iter().for_each(|record| log.append(record).expect("it is written"));
    (directory, path)
}

fn records(path: &Path) -> Result<Vec<Vec<u8>>, LogError> {
    Log::open(path).map(|(_, records)| records)
}

const RECORDS: [&[u8]; 4] = [b"first", b"", b"the third is longer than the others", b"4"];

#[test]
fn records_are_found_again() {
    let (_directory, path) = written(&RECORDS);
    let (mut log, found) = Log::open(&path).expect("it is whole");
    assert_eq!(found, RECORDS);
    log.append(b"5").expect("it is written");
    log.restart(b"all").expect("it is written");
    log.append(b"6").expect("it is written");
    drop(log);
    assert_eq!(records(&path).expect("it is whole"), [b"all".as_slice(), b"6"]);
}

#[test]
fn nobody_else_writes_to_it() {
    let (_directory, path) = written(&[]);
    let (log, _) = Log::open(&path).expect("it is whole");
    assert!(matches!(Log::open(&path), Err(LogError::InUse(_))));
    drop(log);
    assert!(Log::open(&path).is_ok());
}

#[test]
fn a_log_is_long_when_it_is_several_times_what_it_holds() {
    let (_directory, path) = written(&[]);
    let (mut log, _) = Log::open(&path).expect("it is whole");
    let record = vec![0; 1 << 14];
    for _ in 0..15 {
        log.append(&record).expect("it is written");
        assert!(!log.is_long());
    }
    (0..2).for_each(|_| log.append(&record).expect("it is written"));
    assert!(log.is_long());
    log.restart(&vec![0; 1 << 17]).expect("it is written");
    (0..23).for_each(|_| log.append(&record).expect("it is written"));
    assert!(!log.is_long());
    log.append(&record).expect("it is written");
    assert!(log.is_long());
}
