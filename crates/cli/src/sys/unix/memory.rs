//! Memory that the allocator keeps after it was freed.
//!
//! Once it has freed a large block, glibc takes blocks of that size from its heap, and small blocks behind them keep the
//! heap large. So the memory of a client with large messages would stay after the client has left. A fixed
//! `M_MMAP_THRESHOLD` would prevent that too, but each large message would then cost new pages.
#![allow(unsafe_code)]

/// Returns free memory to the system.
pub(crate) fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::malloc_trim(0);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::c_int;

    // SAFETY: this is the declaration in malloc.h. The function takes the allocator's own locks, and touches free memory
    // alone, so any thread may call it with any argument.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
    }
}
