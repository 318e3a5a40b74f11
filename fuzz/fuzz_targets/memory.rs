//! Feeds arbitrary commands to the embedded store: each gets one whole reply, and the bound holds.
#![no_main]

use bytes::{Buf, BytesMut};
use hedgerow_cache::Memory;
use hedgerow_cache::memory::{Asked, execute};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::{Limits, Parsed, Parser, Protocol, decode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let memory = Memory::new(16 << 10);
    let (mut input, mut parser, mut number) = (BytesMut::from(data), Parser::new(), 0u64);
    loop {
        match parser.parse(&input, Limits::STORE) {
            Ok(Parsed::Nothing(length)) => input.advance(length),
            Ok(Parsed::Inline(length, array)) => {
                let behind = input.split_off(length);
                input = array;
                input.extend_from_slice(&behind);
            }
            Ok(Parsed::Command(length)) => {
                let args: Vec<&[u8]> = parser.args().iter().map(|&(a, b)| &input[a..b]).collect();
                number += 1;
                let asked = Asked {
                    args: &args,
                    database: (number % 2) as u32,
                    protocol: if number % 3 == 0 { Protocol::Resp3 } else { Protocol::Resp2 },
                    now: Moment::from_millis(number * 100),
                    unix_ms: 1_700_000_000_000 + number as i64 * 100,
                };
                let mut out = BytesMut::new();
                execute(&memory, &asked, &mut out);
                assert!(decode(&mut out, Limits::STORE).expect("a reply").is_some());
                assert!(out.is_empty() && memory.bytes() <= memory.capacity());
                input.advance(length);
            }
            Ok(Parsed::Partial) | Err(_) => return,
        }
    }
});
