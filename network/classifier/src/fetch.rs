//! Memory that will be looked at, fetched before: a table that is in no near cache answers late, but many answer at once.
#![expect(unsafe_code, reason = "the instruction for it takes an address")]

/// Has the line of the cache that a value begins in come near, and does not wait for that. Elsewhere than on x86-64 it does nothing.
#[inline]
pub(crate) fn fetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it changes nothing and reads nothing that can be told, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
