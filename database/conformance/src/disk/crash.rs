//! What a disk may hold after a power cut. The model is described in [the module above](super).

use super::trace::{FileId, Operation};
use fulmar_node::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// A disk and the operating system's memory in front of it.
#[derive(Default)]
pub struct Disk {
    /// What [`Operation::SyncData`] does is lost: a disk that says that it has stored what it has not.
    lies: bool,
    durable_names: Names,
    /// Changes of names that are not durable yet, by the directory that they are in.
    changed_names: BTreeMap<PathBuf, Vec<Operation>>,
    files: BTreeMap<FileId, Cached>,
}

type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug)]
enum Node {
    Directory,
    File(FileId),
}

/// A file.
#[derive(Default)]
struct Cached {
    durable: Contents,
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, data: Rc<[u8]> },
    Resize(u64),
}

/// What a file holds. Pages that are absent are zeros.
#[derive(Clone, Default)]
struct Contents {
    length: u64,
    pages: BTreeMap<u64, Rc<[u8; PAGE]>>,
}

/// How much of what was not durable a power cut leaves of a file.
#[derive(Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    /// Each page by itself.
    Pages,
    /// Each sector by itself.
    Sectors,
    /// All but the pages that this one of the last writes touched.
    AllButOne(usize),
}

impl Disk {
    /// A disk with nothing on it but the watched directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that does not do what `fdatasync` asks and answers that it did: what the checks must notice.
    #[must_use]
    pub fn lying() -> Self {
        Self { lies: true, ..Self::default() }
    }

    /// Does what a process did.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Write(file, offset, data) => {
                let data = Rc::from(data.as_slice());
                self.file(*file).changes.push(Change::Write { offset: *offset, data });
            }
            Operation::Resize(file, length) => self.file(*file).changes.push(Change::Resize(*length)),
            Operation::Sync(file) => self.file(*file).sync(),
            Operation::SyncData(file) if !self.lies => self.file(*file).sync(),
            Operation::SyncData(_) | Operation::Acknowledged(..) => {}
            Operation::SyncDirectory(directory) => {
                for change in self.changed_names.remove(directory).unwrap_or_default() {
                    rename(&mut self.durable_names, &change);
                }
            }
            Operation::MakeDirectory(path)
            | Operation::RemoveDirectory(path)
            | Operation::Create(path, _)
            | Operation::Rename(_, path)
            | Operation::Remove(path) => {
                let directory = path.parent().unwrap_or(path).to_path_buf();
                self.changed_names.entry(directory).or_default().push(operation.clone());
            }
        }
    }

    fn file(&mut self, file: FileId) -> &mut Cached {
        self.files.entry(file).or_default()
    }

    /// What is left when the power fails now; which of all that is possible, `chance` decides.
    pub(super) fn cut(&self, chance: &mut Random) -> Remains {
        let mut names = self.durable_names.clone();
        let outcome = chance.index(4);
        for changes in self.changed_names.values() {
            let first = match outcome {
                0 => 0,
                1 => changes.len(),
                _ => chance.index(changes.len() + 1),
            };
            changes[..first].iter().for_each(|change| rename(&mut names, change));
        }
        self.remains(&names, |file| file.cut(chance))
    }

    /// What is there as long as the power does not fail.
    pub(super) fn whole(&self) -> Remains {
        let mut names = self.durable_names.clone();
        self.changed_names.values().flatten().for_each(|change| rename(&mut names, change));
        self.remains(&names, |file| {
            file.survivors(file.changes.len(), Survival::Everything, &mut Random::new(0))
        })
    }

    /// What can be reached from the watched directory, with these contents.
    fn remains(&self, names: &Names, mut contents: impl FnMut(&Cached) -> Contents) -> Remains {
        let mut reached = BTreeSet::from([Path::new("")]);
        let mut remains = Remains { directories: Vec::new(), files: Vec::new() };
        for (path, node) in names {
            if !path.parent().is_some_and(|parent| reached.contains(parent)) {
                continue;
            }
            match node {
                Node::Directory => {
                    reached.insert(path);
                    remains.directories.push(path.clone());
                }
                Node::File(file) => {
                    let contents = self.files.get(file).map(&mut contents).unwrap_or_default();
                    remains.files.push((path.clone(), contents));
                }
            }
        }
        remains
    }
}

fn rename(names: &mut Names, change: &Operation) {
    match change {
        Operation::MakeDirectory(path) => {
            names.insert(path.clone(), Node::Directory);
        }
        Operation::Create(path, file) => {
            names.insert(path.clone(), Node::File(*file));
        }
        Operation::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
        Operation::Remove(path) | Operation::RemoveDirectory(path) => {
            names.remove(path);
        }
        _ => {}
    }
}

impl Cached {
    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Change::Write { offset, data } => self.durable.write(offset, &data),
                Change::Resize(length) => self.durable.resize(length),
            }
        }
    }

    fn cut(&self, chance: &mut Random) -> Contents {
        let survival = match chance.index(6) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 | 3 => Survival::Pages,
            4 => Survival::Sectors,
            _ => Survival::AllButOne(self.changes.len().saturating_sub(1 + chance.index(4))),
        };
        let resizes = match chance.index(4) {
            0 => chance.index(self.changes.len() + 1),
            _ => self.changes.len(),
        };
        self.survivors(resizes, survival, chance)
    }

    /// The contents after the first `resizes` changes of length, and of each sector the first few of its writes.
    fn survivors(&self, resizes: usize, survival: Survival, chance: &mut Random) -> Contents {
        let mut fates = Fates { survival, of_sector: BTreeMap::new(), changes: self.changes.len(), chance };
        let mut contents = self.durable.clone();
        for (index, change) in self.changes.iter().enumerate() {
            let resizes = index < resizes;
            match change {
                Change::Write { offset, data } => {
                    for (offset, piece) in pieces(*offset, data, SECTOR) {
                        if fates.survives(index, offset) {
                            contents.write_bytes(offset, piece);
                        }
                    }
                    if resizes {
                        contents.length = contents.length.max(offset + data.len() as u64);
                    }
                }
                Change::Resize(length) if resizes => contents.resize(*length),
                Change::Resize(_) => {}
            }
        }
        let length = contents.length;
        contents.resize(length);
        contents
    }
}

/// Up to which of the changes each sector of a file holds them.
struct Fates<'a> {
    survival: Survival,
    of_sector: BTreeMap<u64, usize>,
    changes: usize,
    chance: &'a mut Random,
}

impl Fates<'_> {
    fn survives(&mut self, change: usize, offset: u64) -> bool {
        let unit = match self.survival {
            Survival::Nothing => return false,
            Survival::Everything => return true,
            Survival::AllButOne(lost) => {
                // The pages of that write keep what they held before it.
                let page = offset / PAGE as u64;
                if change == lost {
                    self.of_sector.insert(page, lost);
                }
                return !self.of_sector.contains_key(&page);
            }
            Survival::Pages => offset / PAGE as u64,
            Survival::Sectors => offset / SECTOR as u64,
        };
        let (changes, chance) = (self.changes, &mut *self.chance);
        let until = self.of_sector.entry(unit).or_insert_with(|| match chance.index(3) {
            0 => 0,
            1 => changes,
            _ => chance.index(changes + 1),
        });
        change < *until
    }
}

/// `data` in pieces none of which crosses a multiple of `size`, with their offsets.
fn pieces(mut offset: u64, mut data: &[u8], size: usize) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let room = size - within(offset, size);
        let (piece, rest) = data.split_at(room.min(data.len()));
        let at = offset;
        offset += piece.len() as u64;
        data = rest;
        (!piece.is_empty()).then_some((at, piece))
    })
}

fn within(offset: u64, size: usize) -> usize {
    usize::try_from(offset % size as u64).unwrap_or(0)
}

impl Contents {
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.write_bytes(offset, data);
        self.length = self.length.max(offset + data.len() as u64);
    }

    fn write_bytes(&mut self, offset: u64, data: &[u8]) {
        for (offset, piece) in pieces(offset, data, PAGE) {
            let page = self.pages.entry(offset / PAGE as u64).or_insert_with(|| Rc::new([0; PAGE]));
            let start = within(offset, PAGE);
            Rc::make_mut(page)[start..start + piece.len()].copy_from_slice(piece);
        }
    }

    fn resize(&mut self, length: u64) {
        self.pages.split_off(&length.div_ceil(PAGE as u64));
        let kept = within(length, PAGE);
        if kept > 0
            && let Some(last) = self.pages.get_mut(&(length / PAGE as u64))
        {
            Rc::make_mut(last)[kept..].fill(0);
        }
        self.length = length;
    }

    fn store(&self, path: &Path) -> io::Result<()> {
        let file = File::create_new(path)?;
        file.set_len(self.length)?;
        for (number, page) in &self.pages {
            let offset = number * PAGE as u64;
            let left = usize::try_from(self.length - offset).unwrap_or(PAGE);
            file.write_all_at(&page[..left.min(PAGE)], offset)?;
        }
        Ok(())
    }

    fn equals(&self, file: &File) -> io::Result<bool> {
        let mut found = Self::default();
        let length = file.metadata()?.len();
        let mut page = [0; PAGE];
        for number in 0..length.div_ceil(PAGE as u64) {
            let offset = number * PAGE as u64;
            let left = usize::try_from(length - offset).map_or(PAGE, |left| left.min(PAGE));
            file.read_exact_at(&mut page[..left], offset)?;
            if page[..left].iter().any(|byte| *byte != 0) {
                found.write(offset, &page[..left]);
            }
        }
        found.length = length;
        let not_zero = |c: &Self| -> Vec<(u64, Rc<[u8; PAGE]>)> {
            let pages = c.pages.iter().filter(|(_, page)| page.iter().any(|byte| *byte != 0));
            pages.map(|(number, page)| (*number, page.clone())).collect()
        };
        Ok(self.length == length && not_zero(self) == not_zero(&found))
    }
}

/// What is on the disk.
pub(super) struct Remains {
    /// Each after the one that it is in.
    directories: Vec<PathBuf>,
    files: Vec<(PathBuf, Contents)>,
}

impl Remains {
    /// Makes it all in `directory`, which is empty.
    pub(super) fn store(&self, directory: &Path) -> io::Result<()> {
        for path in &self.directories {
            fs::create_dir(directory.join(path))?;
        }
        self.files.iter().try_for_each(|(path, contents)| contents.store(&directory.join(path)))
    }

    /// A file or directory that is not the same in `directory`.
    pub(super) fn difference(&self, directory: &Path) -> io::Result<Option<PathBuf>> {
        let mut found = BTreeMap::new();
        walk(directory, Path::new(""), &mut found)?;
        for path in &self.directories {
            if found.remove(path) != Some(true) {
                return Ok(Some(path.clone()));
            }
        }
        for (path, contents) in &self.files {
            if found.remove(path) != Some(false) || !contents.equals(&File::open(directory.join(path))?)? {
                return Ok(Some(path.clone()));
            }
        }
        Ok(found.into_keys().next())
    }
}

/// Every path below `directory`, and whether it is a directory.
fn walk(directory: &Path, below: &Path, found: &mut BTreeMap<PathBuf, bool>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let is_directory = entry.file_type()?.is_dir();
        if is_directory {
            walk(directory, &path, found)?;
        }
        found.insert(path, is_directory);
    }
    Ok(())
}
