//! Networks as they are run: processes, namespaces, interfaces. All but `wrong` needs `ip` (iproute2) and the rights of root.

mod bad_links;
mod ends;
mod exec;
mod network;
mod traffic;
mod wrong;
