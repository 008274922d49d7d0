//! Generates a gzip bomb: a small body that decompresses to a very large body.

/// The header of a gzip file without a file name.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The maximum number of bytes of one deflate copy instruction.
const COPY: u64 = 258;

/// Returns gzip data that decompresses to at least `bytes` zeros.
///
/// The gzip data has about 1/158 of the size of the zeros.
///
/// The checksum and the length at the end are 0, which is invalid. No test reads that far.
pub(super) fn bomb(bytes: u64) -> Vec<u8> {
    let mut bits = Bits(HEADER.to_vec(), 0);
    bits.push(0b1, 1); // this block is the last block
    bits.push(0b01, 2); // it uses the fixed Huffman codes
    bits.push_code(0x30, 8); // the byte 0
    for _ in 0..bytes.div_ceil(COPY) {
        bits.push_code(0b1100_0101, 8); // copy 258 bytes
        bits.push_code(0, 5); // from one byte back
    }
    bits.push_code(0, 7); // end of block
    let Bits(mut out, _) = bits;
    out.extend([0; 8]);
    out
}

/// A bit writer that starts with the lowest bit. The second field is the number of used bits in the last byte.
struct Bits(Vec<u8>, u8);

impl Bits {
    fn push(&mut self, value: u16, count: u8) {
        for at in 0..count {
            if self.1 == 0 {
                self.0.push(0);
            }
            if let Some(last) = self.0.last_mut()
                && value >> at & 1 == 1
            {
                *last |= 1 << self.1;
            }
            self.1 = (self.1 + 1) % 8;
        }
    }

    /// Writes a Huffman code. Unlike other values, a Huffman code starts with the highest bit.
    fn push_code(&mut self, code: u16, count: u8) {
        self.push(code.reverse_bits() >> (16 - count), count);
    }
}
