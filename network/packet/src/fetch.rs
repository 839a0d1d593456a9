//! Memory that will be looked at, fetched before: what is in no near cache answers late, but much of it answers at once.
#![expect(unsafe_code, reason = "the instruction for it takes an address")]

/// Has the line of the processor's cache that begins or goes on at this address come near, and does not wait for that. The address may
/// be any. Elsewhere than on x86-64 it does nothing.
#[inline]
pub fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it changes nothing and reads nothing that can be told, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same, for lines that another processor has written and this one will write to: it need not ask for them again then.
pub fn fetch_to_write<T>(at: *mut T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. Processors without this instruction do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
