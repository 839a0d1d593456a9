//! Agreement among processes some of which lie.
//!
//! *Known as:* Byzantine fault tolerance (BFT), Byzantine agreement or consensus, exponential information gathering (EIG), early stopping.
//!
//! # The problem
//!
//! Of n processes, at most t < n/3 say what they like, to each what they like. The correct ones must decide on one value, the common one
//! if all begin with the same, and soon: t + 1 rounds are needed when t lie, but if only f do, f + 2 must be enough. What they send each
//! other must stay polynomial in n (Abraham and Dolev 2015, theorem 1).
//!
//! # The idea
//!
//! In each round all say what they heard in the round before: after r rounds a process has a tree of who said that who said …, r levels
//! deep (exponential information gathering). It *resolves* a node when it knows that all correct processes will resolve it to the same
//! value within two rounds, and with it all nodes below, whatever was there: they are *coloured*. What is resolved is asked about no
//! longer, so a tree only grows below those that lie and are not found out. A liar that makes it grow is found to be faulty by
//! what it said, and is no longer listened to; if too few lie the tree ends soon, and if too many are found out at once, *monitors*, which
//! are agreements of the same kind on whether that is so, end everything.
//!
//! # The structure
//!
//! - [`Agreement`], a process of the whole protocol: D_t, which agrees on the value, and four `monitor` sequences (section 4).
//! - `dphi`, the protocol D_φ of one agreement (section 2): `tree`, what it heard and resolved; `votes` and `resolve`, the rules by
//!   which nodes are resolved; `closing`, when branches are closed; `detection`, who is found to be faulty by them, and `faults`, the
//!   sets F and FA.
//! - [`Message`], what is sent in a round; [`Claims`] in it, of [`Sequence`]s.
//! - [`check`], what the paper proves, checked after every round of a run.
//! - [`Synchronous`], what runs in rounds; [`runs`] of any such protocol against [`adversaries`], and the [`baselines`] to set beside this one.
//!
//! # The paper's names
//!
//! | in the paper | here |
//! | --- | --- |
//! | σ; a set of processes | [`Sequence`]; [`Processes`] |
//! | D_φ, the EIG protocol; its rounds | `dphi::Dphi`; `send`, `receive`, `detect`, `resolve`, in this order |
//! | IT(σ), RT(σ), PT(σ) | `tree::Node::value`, `Node::resolved` (colouring is the way down to σ), [`Put`] |
//! | ⟨σ, z, d⟩ | an entry of [`Claims`] |
//! | voter, confirmed, supporter; IT-TO-RT RULE, ROUND φ + 1 RULE | `votes::elected` |
//! | unconfirmed voter, leaning towards | `votes::leaning` |
//! | RT-confirmed, RT-voter; RESOLVE RULE, RELAXED RULE | `resolve::is_confirmed`, `resolve_rule`, `relaxed_rule` |
//! | SPECIAL-BOT RULE, SPECIAL-ROOT-BOT RULE | `resolve::special_bot`, `resolve::climb` |
//! | DECAY RULE; EARLY- and STRONG-IT-TO-RT RULE | `closing::decay`; `is_echoed`, `is_strongly_echoed` |
//! | F, FA | `faults::Faults::found`, `agreed` |
//! | Not Voter, Not IT-to-RT | `detection::suspects` |
//! | Not Masking, (a) and (b) | `detection::duties`, `mask_neglected`, `neglectful` |
//! | frontier; output | `Node::has_frontier`; `Dphi::output` |
//! | monitor sequence; BAD; early_q | `monitor::Monitor`; [`Bad`]; [`Word`] |
//! | monitor_decision, monitor_halting; H_BAD and the other halting rules | `Monitor::decide`, `Monitor::halt` |
//!
//! # Example
//!
//! ```
//! use fulmar_byzantine::{Agreement, Decision, Synchronous};
//!
//! // The fourth process is silent, and the others cannot know.
//! let new = |me, input: u8| Agreement::new(4, 1, me, Some(input)).expect("4 > 3");
//! let mut processes = [new(0, 7), new(1, 7), new(2, 7)];
//! for round in 1..=2 {
//!     let mut sent = processes.each_mut().map(|process| Some(process.send(round))).to_vec();
//!     sent.push(None);
//!     processes.iter_mut().for_each(|process| process.receive(round, &sent));
//! }
//! assert!(processes.iter().all(|process| process.decision() == Some(Decision::Value(7)) && process.has_halted()));
//! ```
//!
//! # What is guaranteed
//!
//! If at most t processes lie, and what a correct one sends in a round is received by all in that round: all correct processes decide
//! the same, and halt by the end of round min(f + 2, t + 1). If all begin with one value, they decide it, by round 3, and by
//! round f + 1 if f < 2. What they decide, t + 1 correct ones began with, or it is a default. No correct process is ever taken for
//! faulty. Nothing that is received makes a process panic, nor its tree larger than what it asked for.
//!
//! The paper's rules are as printed except where a run shows that they cannot be meant so: see docs/byzantine.md, where each such run
//! is told. There are at most 64 processes.
//!
//! Not guaranteed: who sent what (the channels must tell), nor anything when more than t lie. That trees are polynomial is the paper's
//! proof of its own rules, and is measured, not proved, for these.

pub mod adversaries;
mod agreement;
pub mod baselines;
pub mod check;
mod closing;
mod detection;
mod dphi;
mod faults;
mod message;
mod monitor;
mod resolve;
pub mod runs;
mod sequence;
mod synchronous;
#[cfg(test)]
mod tests;
mod tree;
mod votes;

pub use agreement::{Agreement, AgreementError, Decision};
#[doc(hidden)]
pub use dphi::Defect;
use dphi::Shape;
pub use dphi::{Put, Rule};
pub use message::{Bad, Claims, Message, Word};
pub use sequence::{MOST_PROCESSES, Processes, Sequence};
pub use synchronous::{Synchronous, Value, Wire};
