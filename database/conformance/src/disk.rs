//! What a disk does to a database: power cuts that tear and lose what was not synced, and calls that fail.
//!
//! The storage engine calls the operating system directly, so the layer that injects faults is below it: the binary
//! `disk` defines the functions of the C library that change files, records what they do below one directory
//! ([`trace`]), and lets them fail when told to. The rest of this module runs in any process:
//!
//! - [`crash`]: from a trace, what the disk may hold after a power cut at any operation.
//! - [`states`]: makes such disks, and opens the databases on them.
//! - [`failures`]: lets calls fail under a process that commits.
//!
//! # The model of a power cut
//!
//! A file's contents are durable once `fsync` or `fdatasync` of that file returned. Of what was written since, each
//! page of 4 KiB holds what it held after any one of the writes to it, or before all of them, whatever other pages
//! hold; of a page that was being written when the power failed, each sector of 512 bytes may do so. Of the changes of
//! its length since, any first part took place. Durable bytes stay as they are unless they are written again.
//!
//! Names (creating, renaming and removing files and directories) are durable once `fsync` of their directory returned
//! after them. Of later changes in one directory any first part took place, in the order in which they were made. A new
//! name does not say that the file's contents are durable, nor does `fsync` of a file its name.

pub mod crash;
pub mod failures;
pub mod states;
pub mod trace;
