import type { Item } from "./queue";

/** The server did not store an event. It may do so after a time in milliseconds. */
export class PublishError extends Error {
  constructor(
    message: string,
    readonly after = 0,
  ) {
    super(message);
  }
}

/** The server will never store the event. */
export class RejectedError extends PublishError {}

/** Publishes events to a server. Later it sets acks or failure of each item and calls the function changed of its constructor. */
export interface Publisher {
  readonly connected: boolean;
  /** Events that may be in flight at the start and after a failure. */
  readonly window: number;
  connect(): Promise<void>;
  /** Adds an event to the batch. Throws a RejectedError if it cannot be sent. */
  publish(it: Item): void;
  /** Writes the batch; if not all, only if it is long. */
  flush(all: boolean): Promise<void>;
  /** Forgets the events in flight, which are sent again. */
  reset(): void;
  close(): Promise<void>;
}
