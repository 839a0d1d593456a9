//! The baselines as trials take them.

use super::{Eig, King, Queen};
use crate::adversaries::{Plan, Setting};
use crate::runs::{Inspector, Protocol, rounds};
use std::marker::PhantomData;

/// Which baseline, as a [`Protocol`].
#[derive(Clone, Copy, Debug)]
pub struct Baseline<P>(PhantomData<P>);

impl<P> Default for Baseline<P> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

macro_rules! baseline {
    ($process:ident, $make:expr, $rounds:expr) => {
        impl<V: crate::Value> Protocol for Baseline<$process<V>> {
            type Process = $process<V>;
            type Value = V;

            fn process(&self, setting: &Setting<V>, me: u8, input: V) -> $process<V> {
                $make(setting, me, input)
            }

            fn bound(&self, setting: &Setting<V>, _lying: usize) -> u32 {
                rounds($rounds * (setting.t + 1))
            }

            fn defaults(&self) -> Option<Vec<V>> {
                None
            }

            fn inspector(&self, _: &Setting<V>, _: &Plan<V>) -> impl Inspector<$process<V>> + Clone {}
        }
    };
}

baseline!(Eig, |s: &Setting<V>, me, input| Eig::new(s.n, s.t, usize::from(me), input, s.values[0]), 1);
baseline!(King, |s: &Setting<V>, me, input| King::new(s.t, usize::from(me), input, s.values[0]), 3);
baseline!(Queen, |s: &Setting<V>, me, input| Queen::new(s.t, usize::from(me), input), 2);
