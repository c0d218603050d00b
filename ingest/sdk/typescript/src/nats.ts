// Publishes to NATS JetStream.

import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";

import { connect, headers, type NatsConnection, type NodeConnectionOptions } from "@nats-io/transport-node";

import { tlsOptions, type Config } from "./config";
import { MAX_PARTS, serviceToken } from "./event";
import { PublishError, RejectedError, type Publisher } from "./publisher";
import type { Item } from "./queue";
import { NO_STREAM, type Reporter } from "./report";

const PART_BYTES = 512 << 10; // maximum payload of one message
const HEADER_ROOM = 64 << 10; // reserved for the headers of a message
const CONNECT_TIMEOUT = 2000;
const NO_PINGS = 2 ** 31 - 1; // the acknowledgements show whether the connection works

const STORED = '{"stream":"'; // start of an acknowledgement without an error
const MESSAGE_TOO_LARGE = 10054; // JetStream's code for a message above the limit of the stream

/** The connection does not keep the process alive. */
export class NATSPublisher implements Publisher {
  readonly #token: string;
  #nc: NatsConnection | undefined;
  #server = 0;
  #inbox = "";
  #sent = 0;
  #replies = new Map<string, Item>(); // events in flight by reply subject

  constructor(
    private readonly config: Config,
    private readonly report: Reporter,
    private readonly changed: () => void,
  ) {
    this.#token = serviceToken(config.service);
  }

  readonly window = 1;

  get connected(): boolean {
    return this.#nc !== undefined && !this.#nc.isClosed();
  }

  /** Connects to the next server of the list. The client must not reconnect itself, because it would send its buffer before the events
   * that the sender resends. */
  async connect(): Promise<void> {
    await this.close();
    const { servers, natsOptions } = this.config;
    const url = new URL(servers[this.#server++ % servers.length]);
    const secure = url.protocol === "tls:" || this.config.caFile || this.config.certFile || natsOptions.tls;
    const options: NodeConnectionOptions = {
      servers: url.host.includes(":") ? url.host : url.host + ":4222",
      ...credentials(url),
      name: "llmtap-typescript/" + this.#token,
      inboxPrefix: "_INBOX." + this.#token,
      timeout: CONNECT_TIMEOUT,
      ignoreClusterUpdates: true,
      ...natsOptions,
      // The client refuses a server that has no TLS. Without host, it would check the certificate of an IP address against "localhost".
      ...(secure ? { tls: await this.#tls(url) } : {}),
      reconnect: false,
      pingInterval: NO_PINGS,
    };
    let nc: NatsConnection;
    try {
      nc = await connect(options);
    } catch (e) {
      throw new PublishError(connectError(e, url));
    }
    unref(nc);
    void this.#watch(nc);
    this.#inbox = `_INBOX.${this.#token}.${randomBytes(8).toString("hex")}.`;
    nc.subscribe(this.#inbox + "*", {
      callback: (error, m) => {
        if (error) this.report.denied(error.message);
        else this.#acknowledged(m.subject, m.data);
      },
    });
    // Before the first message. On a connection that is lost meanwhile, the client's flush does not end.
    await Promise.race([
      nc.flush(),
      nc.closed().then(() => {
        throw new PublishError("connection lost");
      }),
    ]);
    this.#nc = nc;
  }

  async #tls(url: URL): Promise<NodeConnectionOptions["tls"]> {
    const own = { ...(await tlsOptions(this.config)), host: url.hostname.replace(/^\[|\]$/g, "") };
    return { ...own, ...(this.config.natsOptions.tls as object) } as NodeConnectionOptions["tls"];
  }

  /** Records permission violations, and wakes the sender when the connection closes. */
  async #watch(nc: NatsConnection): Promise<void> {
    void nc.closed().then(() => this.changed());
    try {
      for await (const s of nc.status()) {
        const error = s.type === "error" ? s.error : undefined;
        if (error && /permissions violation/i.test(error.message)) this.report.denied(error.message);
      }
    } catch {
      return; // the connection is closed
    }
  }

  publish(it: Item): void {
    const { ev } = it;
    const nc = this.#nc!;
    const body = ev.body ?? Buffer.alloc(0);
    const size = partSize(nc.info?.max_payload ?? 1 << 20);
    const parts = Math.max(1, Math.ceil(body.length / size));
    if (parts > MAX_PARTS) throw new RejectedError(`a body needs more than ${MAX_PARTS} parts`);
    const subject = ev.subject();
    const common = ev.headers();
    it.acks = parts;
    for (let part = 1; part <= parts; part++) {
      const h = headers();
      h.append("Nats-Msg-Id", ev.messageID(part));
      if (parts > 1) {
        h.append("Llmtap-Part", `${part}/${parts}`);
        h.append("Llmtap-Body-Bytes", String(body.length));
      }
      for (const [name, value] of common) h.append(name, value);
      const reply = this.#inbox + ++this.#sent;
      this.#replies.set(reply, it);
      nc.publish(subject, body.subarray((part - 1) * size, part * size), { reply, headers: h });
    }
  }

  async flush(): Promise<void> {
    // The client writes at the end of the turn of the event loop.
  }

  /** Processes the acknowledgement of one message. */
  #acknowledged(reply: string, data: Uint8Array): void {
    const it = this.#replies.get(reply);
    if (!it) return;
    this.#replies.delete(reply);
    const error = ackError(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString());
    if (error) it.failure = error;
    else it.acks--;
    this.changed();
  }

  reset(): void {
    this.#replies.clear();
  }

  async close(): Promise<void> {
    const nc = this.#nc;
    this.#nc = undefined;
    try {
      await nc?.close();
    } catch {
      return; // the connection is not used any more
    }
  }
}

function credentials(url: URL): NodeConnectionOptions {
  if (!url.username) return {};
  const user = decodeURIComponent(url.username);
  return url.password ? { user, pass: decodeURIComponent(url.password) } : { token: user };
}

function connectError(e: unknown, url: URL): string {
  const text = [e, (e as { cause?: unknown }).cause].filter((x) => x instanceof Error).map((x) => (x as Error).message);
  const shown = [...new Set(text)].join(": ") || String(e);
  return url.protocol === "tls:" && !/tls|certificate/i.test(shown) ? `TLS: ${shown}` : shown;
}

/** Lets the process exit while the connection is open. */
function unref(nc: NatsConnection): void {
  const { transport, heartbeats } = (nc as unknown as { protocol: { transport?: { socket?: Socket }; heartbeats?: { timer?: NodeJS.Timeout } } }).protocol;
  transport?.socket?.unref();
  heartbeats?.timer?.unref?.();
}

/** The error in an acknowledgement; undefined if the message is stored. */
function ackError(ack: string): PublishError | undefined {
  if (ack.startsWith(STORED)) return undefined;
  if (!ack) return new PublishError(NO_STREAM);
  let value: { stream?: unknown; error?: { err_code?: number; description?: string } };
  try {
    value = JSON.parse(ack) as typeof value;
  } catch {
    return new PublishError("the acknowledgement is not JSON");
  }
  const { error } = value;
  if (error) {
    const text = `${error.description} (${error.err_code})`;
    return error.err_code === MESSAGE_TOO_LARGE ? new RejectedError(text) : new PublishError(text);
  }
  return value.stream ? undefined : new PublishError("the acknowledgement names no stream");
}

/** The number of body bytes that fit into one message if the server accepts maxPayload bytes including headers. */
export function partSize(maxPayload: number): number {
  return Math.min(PART_BYTES, Math.max(maxPayload - HEADER_ROOM, Math.floor(maxPayload / 2), 1));
}
