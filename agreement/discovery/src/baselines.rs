//! What was there before (section 1.2).

mod flooding;
mod kutten_peleg_vishkin;
mod law_siu;
mod name_dropper;
mod united;

pub use flooding::Flooding;
pub use kutten_peleg_vishkin::KuttenPelegVishkin;
pub use law_siu::LawSiu;
pub use name_dropper::NameDropper;
pub use united::Message;
