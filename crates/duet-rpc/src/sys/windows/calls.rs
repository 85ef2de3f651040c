//! Calls of the system that have no safe wrapper in the standard library. Each is a function that cannot be misused;
//! nothing else on Windows has `unsafe`.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::windows::io::{
    AsRawHandle, BorrowedHandle, FromRawHandle, IntoRawHandle, OwnedHandle, RawHandle,
};
use std::ptr;
use std::sync::OnceLock;

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use windows_sys::Win32::Foundation::{
    FILETIME, HANDLE, INVALID_HANDLE_VALUE, LocalFree, WAIT_OBJECT_0,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE,
    SetConsoleCtrlHandler, SetStdHandle,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
    TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_PROCESS_ID_LIST, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, INFINITE, OpenProcess, OpenThread,
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE,
    QueryFullProcessImageNameW, ResumeThread, THREAD_SUSPEND_RESUME, TerminateProcess,
    WaitForSingleObject,
};

/// Waits without a limit.
pub(super) const FOR_EVER: u32 = INFINITE;

/// The code with which a killed program exits.
const KILLED: u32 = 1;

/// The most processes of a job that are listed. A job with more has members all the same.
const MOST_MEMBERS: usize = 1024;

// SAFETY: the declarations are those of the C runtime, which every target of Windows links.
unsafe extern "C" {
    #[link_name = "_open_osfhandle"]
    fn open_osfhandle(handle: isize, flags: c_int) -> c_int;
    #[link_name = "_dup2"]
    fn dup2(from: c_int, to: c_int) -> c_int;
    #[link_name = "_close"]
    fn close(descriptor: c_int) -> c_int;
    #[cfg(test)]
    #[link_name = "_write"]
    fn write(descriptor: c_int, bytes: *const std::ffi::c_void, count: u32) -> c_int;
}

/// Turns the result of a call into an error.
fn check(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes over a handle that a call has returned.
fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the callers pass a new handle that nothing else closes, and it is valid.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

// ---- standard handles

pub(super) fn set_stdin(handle: OwnedHandle) -> io::Result<()> {
    set_standard(STD_INPUT_HANDLE, handle)
}

pub(super) fn set_stdout(handle: OwnedHandle) -> io::Result<()> {
    set_standard(STD_OUTPUT_HANDLE, handle)
}

fn set_standard(which: u32, handle: OwnedHandle) -> io::Result<()> {
    // SAFETY: the handle is valid, and never closed: the process owns it from here on.
    check(unsafe { SetStdHandle(which, handle.into_raw_handle()) })
}

/// A descriptor of the C runtime.
#[derive(Clone, Copy)]
pub(super) enum CDescriptor {
    Stdin = 0,
    Stdout = 1,
}

/// Makes a descriptor of the C runtime use this handle.
pub(super) fn replace_c_descriptor(which: CDescriptor, handle: OwnedHandle) -> io::Result<()> {
    // SAFETY: the handle is valid, and the descriptor owns it from here on.
    let from = unsafe { open_osfhandle(handle.into_raw_handle() as isize, 0) };
    if from < 0 {
        return Err(io::Error::other("the C runtime has no free descriptor"));
    }
    // SAFETY: `from` is open, and the target is a standard descriptor. The C runtime locks its table.
    let is_replaced = unsafe { dup2(from, which as c_int) } == 0;
    // SAFETY: `from` is open, and nobody else knows it.
    let _ = unsafe { close(from) };
    if is_replaced { Ok(()) } else { Err(io::Error::other("the C runtime refused a descriptor")) }
}

/// Writes to stdout as a C library in this process would.
#[cfg(test)]
pub(super) fn print_from_c(text: &str) -> bool {
    // SAFETY: the pointer and the length belong to the text.
    let written = unsafe { write(1, text.as_ptr().cast(), text.len() as u32) };
    usize::try_from(written).is_ok_and(|written| written >= text.len())
}

// ---- console events

static ON_CONSOLE_EVENT: OnceLock<fn(u32)> = OnceLock::new();

/// Calls this function for each console event from now on, on a thread of the system. No event has its default effect
/// any more.
pub(super) fn receive_console_events(handle: fn(u32)) -> io::Result<()> {
    extern "system" fn on_event(event: u32) -> i32 {
        if let Some(handle) = ON_CONSOLE_EVENT.get() {
            handle(event);
        }
        1
    }
    let _ = ON_CONSOLE_EVENT.set(handle);
    // SAFETY: the handler is a function without captures, so it lives as long as the process.
    check(unsafe { SetConsoleCtrlHandler(Some(on_event), 1) })
}

/// Sends Ctrl-Break to the console group that this process leads.
pub(super) fn send_break(group: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) })
}

// ---- processes

pub(super) fn this_process() -> BorrowedHandle<'static> {
    // SAFETY: the call returns a constant that stands for this process, and that nobody has to close.
    unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) }
}

/// Ends this process without any clean-up.
pub(super) fn terminate_this_process(code: i32) {
    // SAFETY: the handle stands for this process. Nothing of it runs afterwards.
    let _ = unsafe { TerminateProcess(GetCurrentProcess(), code.cast_unsigned()) };
}

/// Opens a process, to wait for its end and to read its start.
pub(super) fn open_process(id: u32) -> io::Result<OwnedHandle> {
    // SAFETY: the call takes numbers only, and returns a new handle or null.
    own(unsafe { OpenProcess(PROCESS_SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, 0, id) })
}

/// Kills a process.
pub(super) fn terminate_process(id: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only, and returns a new handle or null.
    let process = own(unsafe { OpenProcess(PROCESS_TERMINATE, 0, id) })?;
    // SAFETY: the handle is open, with the right to end the process.
    check(unsafe { TerminateProcess(process.as_raw_handle(), KILLED) })
}

/// Waits until a process has ended, or this many milliseconds. Returns `true` if it has ended.
pub(super) fn wait_for(process: BorrowedHandle<'_>, milliseconds: u32) -> bool {
    // SAFETY: the handle is borrowed, so it stays open during the call.
    unsafe { WaitForSingleObject(process.as_raw_handle(), milliseconds) == WAIT_OBJECT_0 }
}

/// The start of a process, in 100 ns since 1601.
pub(super) fn start_time(process: BorrowedHandle<'_>) -> Option<u64> {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [start, end, kernel, user] = &mut times;
    // SAFETY: the handle is open, and each pointer is to a time of its own that outlives the call.
    check(unsafe { GetProcessTimes(process.as_raw_handle(), start, end, kernel, user) }).ok()?;
    Some(u64::from(times[0].dwHighDateTime) << 32 | u64::from(times[0].dwLowDateTime))
}

/// The id of the process that started this one.
pub(super) fn parent_id() -> Option<u32> {
    // SAFETY: the call takes numbers only, and returns a new handle.
    let list = own(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) }).ok()?;
    let size = size_of::<PROCESSENTRY32W>() as u32;
    let mut entry = PROCESSENTRY32W { dwSize: size, ..Default::default() };
    // SAFETY: the list is open, and the entry has its size set.
    let mut has_entry = unsafe { Process32FirstW(list.as_raw_handle(), &mut entry) } != 0;
    while has_entry {
        if entry.th32ProcessID == std::process::id() {
            return Some(entry.th32ParentProcessID);
        }
        // SAFETY: as above.
        has_entry = unsafe { Process32NextW(list.as_raw_handle(), &mut entry) } != 0;
    }
    None
}

/// Resumes the threads of a process that was started suspended.
pub(super) fn resume_process(id: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only, and returns a new handle.
    let list = own(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut entry =
        THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    let mut is_resumed = false;
    // SAFETY: the list is open, and the entry has its size set.
    let mut has_entry = unsafe { Thread32First(list.as_raw_handle(), &mut entry) } != 0;
    while has_entry {
        if entry.th32OwnerProcessID == id {
            // SAFETY: the call takes numbers only, and returns a new handle or null.
            let thread = own(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) })?;
            // SAFETY: the handle is open, with the right to resume.
            is_resumed |= unsafe { ResumeThread(thread.as_raw_handle()) } != u32::MAX;
        }
        // SAFETY: as above.
        has_entry = unsafe { Thread32Next(list.as_raw_handle(), &mut entry) } != 0;
    }
    if is_resumed { Ok(()) } else { Err(io::Error::other("the program has no thread to resume")) }
}

/// The name of the program that a process runs, without its folder.
pub(super) fn program_name(id: u32) -> Option<String> {
    let process = open_process(id).ok()?;
    let mut path = [0_u16; 1024];
    let mut length = path.len() as u32;
    // SAFETY: the handle is open, and the buffer has the given length.
    let named = unsafe {
        QueryFullProcessImageNameW(process.as_raw_handle(), 0, path.as_mut_ptr(), &mut length)
    };
    check(named).ok()?;
    let path = String::from_utf16_lossy(path.get(..length as usize)?);
    path.rsplit('\\').next().map(str::to_owned)
}

// ---- named pipes

/// The rights of the owner, and of nobody else; protected, so that nothing is inherited.
const OWNER_ONLY: &str = "D:P(A;;GA;;;OW)\0";

/// Makes an instance of a named pipe that only the user of this process can open.
pub(super) fn create_private_pipe(
    options: &ServerOptions,
    path: &str,
) -> io::Result<NamedPipeServer> {
    let text: Vec<u16> = OWNER_ONLY.encode_utf16().collect();
    let mut descriptor: PSECURITY_DESCRIPTOR = ptr::null_mut();
    // SAFETY: the text ends with a zero, and the call stores an allocated descriptor in the variable.
    check(unsafe {
        let (text, size) = (text.as_ptr(), ptr::null_mut());
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            text,
            SDDL_REVISION_1,
            &mut descriptor,
            size,
        )
    })?;
    let mut attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor,
        bInheritHandle: 0,
    };
    // SAFETY: the pointer is to attributes with a valid descriptor, and both live until the call returns.
    let made = unsafe {
        options.create_with_security_attributes_raw(path, ptr::from_mut(&mut attributes).cast())
    };
    // SAFETY: the descriptor was allocated by the call above, and is not used any more.
    unsafe { LocalFree(descriptor) };
    made
}

// ---- jobs

/// A job that kills its processes when its last handle is closed.
pub(super) fn create_job() -> io::Result<OwnedHandle> {
    // SAFETY: null asks for the default security and for no name.
    let job = own(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) })?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let size = size_of_val(&limits) as u32;
    // SAFETY: the class of information and the size belong to the struct that the pointer is to.
    check(unsafe {
        let limits = ptr::from_ref(&limits).cast();
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            limits,
            size,
        )
    })?;
    Ok(job)
}

/// Puts a process, and every process that it will start, into a job.
pub(super) fn join_job(job: BorrowedHandle<'_>, process: RawHandle) -> io::Result<()> {
    // SAFETY: the system checks the handles; a wrong one is an error.
    check(unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) })
}

/// Kills all processes of a job.
pub(super) fn terminate_job(job: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: the handle is borrowed, so it stays open during the call.
    check(unsafe { TerminateJobObject(job.as_raw_handle(), KILLED) })
}

/// The ids of the processes in a job.
pub(super) fn job_members(job: BorrowedHandle<'_>) -> io::Result<Vec<u32>> {
    /// The struct of the system has an array of one id at its end; this one has room for more.
    #[repr(C)]
    struct IdList {
        list: JOBOBJECT_BASIC_PROCESS_ID_LIST,
        more: [usize; MOST_MEMBERS],
    }
    let mut ids = IdList { list: Default::default(), more: [0; MOST_MEMBERS] };
    let size = size_of::<IdList>() as u32;
    // SAFETY: the pointer is to a buffer of this size, which begins with the struct of this class of information.
    let listed = check(unsafe {
        let (job, to) = (job.as_raw_handle(), ptr::from_mut(&mut ids).cast());
        QueryInformationJobObject(job, JobObjectBasicProcessIdList, to, size, ptr::null_mut())
    });
    /// More members than there is room for.
    const ERROR_MORE_DATA: i32 = 234;
    match listed {
        Err(error) if error.raw_os_error() != Some(ERROR_MORE_DATA) => return Err(error),
        _ => {}
    }
    let count = ids.list.NumberOfProcessIdsInList as usize;
    let all = ids.list.ProcessIdList.iter().chain(&ids.more).take(count);
    Ok(all.filter_map(|id| u32::try_from(*id).ok()).collect())
}
