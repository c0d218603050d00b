// Decodes content encodings with a size limit.

import * as zlib from "node:zlib";

/** What was decoded before an error, and the error. */
export interface Decoded {
  text: Buffer;
  error: string;
}

type Decoder = (body: Buffer, options: zlib.ZlibOptions & zlib.BrotliOptions) => Buffer;

/** Decodes up to limit bytes of body. Runs in the background, on the threads of zlib. */
export async function decodeSome(encoding: string, body: Buffer, limit: number): Promise<Decoded> {
  const stream = decoder(encoding, body);
  if (!stream) return { text: Buffer.alloc(0), error: `no decoder for ${encoding}` };
  const pieces: Buffer[] = [];
  let size = 0;
  let error = "";
  try {
    stream.end(body);
    for await (const piece of stream) {
      pieces.push(piece as Buffer);
      size += (piece as Buffer).length;
      if (size >= limit) break;
    }
  } catch (e) {
    error = (e as Error).message;
  }
  return { text: Buffer.concat(pieces).subarray(0, limit), error };
}

/** Decodes in one step, when the process exits. */
export function decodeSync(encoding: string, body: Buffer, limit: number): Decoded {
  const decode = syncDecoder(encoding, body);
  if (!decode) return { text: Buffer.alloc(0), error: `no decoder for ${encoding}` };
  try {
    return { text: decode(body, { maxOutputLength: limit }), error: "" };
  } catch (e) {
    return { text: Buffer.alloc(0), error: (e as Error).message };
  }
}

interface Zstd {
  createZstdDecompress?: () => zlib.Unzip;
  zstdDecompressSync?: Decoder;
}

function decoder(encoding: string, body: Buffer): zlib.Unzip | zlib.BrotliDecompress | undefined {
  switch (encoding) {
    case "gzip":
      return zlib.createGunzip();
    case "deflate":
      return hasZlibHeader(body) ? zlib.createInflate() : zlib.createInflateRaw();
    case "br":
      return zlib.createBrotliDecompress();
    case "zstd":
      return (zlib as Zstd).createZstdDecompress?.(); // Node 22.15 and later
  }
  return undefined;
}

function syncDecoder(encoding: string, body: Buffer): Decoder | undefined {
  switch (encoding) {
    case "gzip":
      return zlib.gunzipSync;
    case "deflate":
      return hasZlibHeader(body) ? zlib.inflateSync : zlib.inflateRawSync;
    case "br":
      return zlib.brotliDecompressSync;
    case "zstd":
      return (zlib as Zstd).zstdDecompressSync;
  }
  return undefined;
}

/** The standard requires a zlib header; some servers omit it. */
function hasZlibHeader(body: Buffer): boolean {
  return body.length >= 2 && (body[0] & 0x0f) === 8 && body.readUInt16BE(0) % 31 === 0;
}
