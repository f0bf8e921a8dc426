//! Replaces the C library's time functions, so that the programs of a command see their task's
//! time.
//!
//! `PROCTOR_CLOCK` is the time at which the command starts, in nanoseconds since 1970. The
//! command's first program reads the monotonic clock and passes its value to the others in
//! `PROCTOR_CLOCK_SINCE`. So all programs of a command see the same time, and adjustments of the
//! machine's clock do not affect them. The library isn't linked against a C library, so one file
//! works with all of them.

#![no_std]

use core::{
    arch::asm,
    ffi::{CStr, c_char, c_int, c_void},
    sync::atomic::{AtomicI64, Ordering},
};

/// The C library's `timespec` on 64-bit Linux.
#[repr(C)]
pub struct TimeSpec {
    seconds: i64,
    nanos: i64,
}

#[repr(C)]
pub struct TimeVal {
    seconds: i64,
    micros: i64,
}

const SECOND: i64 = 1_000_000_000;
const MICRO: i64 = 1000;

const REALTIME: c_int = 0;
const MONOTONIC: c_int = 1;
const REALTIME_COARSE: c_int = 5;
const INTERNATIONAL: c_int = 11;
const UTC: c_int = 1;

#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: usize = 228;
#[cfg(target_arch = "aarch64")]
const CLOCK_GETTIME: usize = 113;

/// The task's time minus the monotonic clock; 0 if no time is set.
static OFFSET_NANOS: AtomicI64 = AtomicI64::new(0);

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    fn __errno_location() -> *mut c_int;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The `core` crate requires this symbol, but nothing calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The loader calls this function before the program starts.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let Some(moment) = number(c"PROCTOR_CLOCK") else { return };
    let since = match number(c"PROCTOR_CLOCK_SINCE") {
        Some(since) => since,
        None => {
            let now = monotonic();
            set_variable(c"PROCTOR_CLOCK_SINCE", now);
            now
        }
    };
    OFFSET_NANOS.store(moment.wrapping_sub(since), Ordering::Relaxed);
}

fn number(name: &CStr) -> Option<i64> {
    let text = unsafe { getenv(name.as_ptr()) };
    if text.is_null() {
        return None;
    }
    let mut value = 0i64;
    for byte in unsafe { CStr::from_ptr(text) }.to_bytes() {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
    }
    Some(value)
}

fn set_variable(name: &CStr, mut value: i64) {
    let mut digits = [0u8; 24];
    let mut at = digits.len() - 1;
    while at > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    unsafe { setenv(name.as_ptr(), digits.as_ptr().add(at).cast(), 1) };
}

/// Calls the kernel's `clock_gettime`. Returns 0, or a negative error number.
fn kernel_time(clock: c_int, time: *mut TimeSpec) -> isize {
    let done: isize;
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inlateout("rax") CLOCK_GETTIME as isize => done, in("rdi") clock as isize,
            in("rsi") time, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") CLOCK_GETTIME, inlateout("x0") clock as isize => done, in("x1") time,
            options(nostack));
    }
    done
}

fn nanos(clock: c_int) -> i64 {
    let mut time = TimeSpec { seconds: 0, nanos: 0 };
    kernel_time(clock, &mut time);
    time.seconds.wrapping_mul(SECOND).wrapping_add(time.nanos)
}

fn monotonic() -> i64 {
    nanos(MONOTONIC)
}

fn now() -> i64 {
    match OFFSET_NANOS.load(Ordering::Relaxed) {
        0 => nanos(REALTIME),
        ahead => monotonic().wrapping_add(ahead),
    }
}

fn spec(now: i64) -> TimeSpec {
    TimeSpec { seconds: now / SECOND, nanos: now % SECOND }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut TimeSpec) -> c_int {
    let is_date = matches!(clock, REALTIME | REALTIME_COARSE | INTERNATIONAL);
    if is_date && !time.is_null() && OFFSET_NANOS.load(Ordering::Relaxed) != 0 {
        unsafe { time.write(spec(now())) };
        return 0;
    }
    match kernel_time(clock, time) {
        error if error < 0 => {
            unsafe { __errno_location().write(-error as c_int) };
            -1
        }
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut TimeVal, _zone: *mut c_void) -> c_int {
    if !time.is_null() {
        let now = now();
        unsafe { time.write(TimeVal { seconds: now / SECOND, micros: now % SECOND / MICRO }) };
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(out: *mut i64) -> i64 {
    let seconds = now() / SECOND;
    if !out.is_null() {
        unsafe { out.write(seconds) };
    }
    seconds
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(time: *mut TimeSpec, base: c_int) -> c_int {
    if base != UTC || time.is_null() {
        return 0;
    }
    unsafe { time.write(spec(now())) };
    base
}
