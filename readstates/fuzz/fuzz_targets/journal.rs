#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    readstates_fuzz::targets::journal(data);
});
