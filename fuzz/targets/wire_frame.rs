//! A byte stream: it is cut into frames the same way however it arrives, and what can be read can be written.

#![no_main]

use backfire_wire::{Frame, FrameDecoder, MessageFlags, OpCode, OpMsg, OpMsgEncoder, OpQuery, compression};
use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;

fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
    let (decoder, mut buffer, mut frames) = (FrameDecoder::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Ok(Some(frame)) = decoder.decode(&mut buffer) {
            frames.push(frame);
        }
    }
    frames
}

fn read(frame: &Frame) {
    match frame.header.op_code {
        OpCode::Compressed => {
            if let Ok((inner, compressor)) = compression::decompress(frame) {
                let again = Frame::from_whole(compression::compress(&inner.whole, compressor).into());
                let (back, _) = compression::decompress(&again.expect("a frame")).expect("what was compressed here");
                assert_eq!(back.whole, inner.whole);
                if inner.header.op_code != OpCode::Compressed {
                    read(&inner);
                }
            }
        }
        OpCode::Msg => {
            let Ok(message) = OpMsg::parse(frame) else { return };
            let checksum = message.flags.has(MessageFlags::CHECKSUM_PRESENT);
            let mut encoder = OpMsgEncoder::new(MessageFlags(message.flags.0 & !1), 0).body(&message.body);
            for sequence in &message.sequences {
                let documents: Vec<_> = sequence.iter().collect();
                encoder = encoder.sequence(&sequence.name, documents.iter().map(|document| &document[..]));
            }
            let again = Frame::from_whole(encoder.finish(1, 2, checksum).into()).expect("a frame");
            let again = OpMsg::parse(&again).expect("what was written here");
            assert_eq!((again.body, again.sequences), (message.body, message.sequences));
        }
        OpCode::Query => drop(OpQuery::parse(frame)),
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let whole = frames(&[input]);
    let middle = input.len() / 2;
    assert_eq!(frames(&[&input[..middle], &input[middle..]]), whole);
    whole.iter().for_each(read);
});
