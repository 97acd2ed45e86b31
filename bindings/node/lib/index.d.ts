/// <reference lib="esnext.disposable" />

/**
 * Connects to a store by its URL: `redis://HOST`, `rediss://…`, `redis+sentinel://H1,H2,H3/MASTER`,
 * `redis+cluster://H1,H2`, `quorum:redis://A,redis://B,redis://C`, `postgres://HOST/DATABASE`, `file:PATH`, or `memory:` for this client alone
 * (`memory:NAME` for all threads of this process).
 *
 * ```ts
 * await using locks = await connect("redis://127.0.0.1");
 * await using guard = await locks.mutex("orders/42").acquire({ within: 5_000 });
 * await store.write(order, guard.check()); // still held? the resource refuses older tokens
 * ```
 */
export function connect(url: string, options?: ConnectOptions): Promise<Locks>;

/** All times are in milliseconds. */
export interface ConnectOptions {
  /** The name that people see for this client's holders and waiters. Default: host, process and script. */
  who?: string;
  /** How long a place in a queue outlives this client. From 10 to 60 000. Default: 3 000. */
  waiterLease?: number;
  /** How long to wait for a server that is loading its data. Default: without limit. */
  within?: number;
  /** Called each time the client is about to wait for a server that is loading its data. Default: a process warning. */
  onLoading?: (why: string) => void;
  /** Gives up when it fires: the promise rejects with its reason. */
  signal?: AbortSignal;
}

/** What every acquire may say of its hold. All times are in milliseconds. */
export interface HoldOptions {
  /** How long the lock outlives this process, which renews it after a third of that. At least 10. Default: 30 000. */
  lease?: number;
  /** Ends renewal after this long, so that a holder that hangs can't keep the lock. Default: never. */
  maxHold?: number;
  /** Why the lock is wanted, for people to see. */
  why?: string;
  /** Gives up when it fires: the promise rejects with its reason, and nothing is left in the store. */
  signal?: AbortSignal;
}

/** The options of an acquire that does not wait. */
export interface TryOptions extends HoldOptions {
  /**
   * Lets nobody else have it for so long after the grant, even if it is released, dropped or lost before. Not with
   * `keep`, and not on a quorum. Default: it ends with the hold.
   */
  atLeast?: number;
}

/** The options of an acquire of several locks, and of an attempt at the work of a once. */
export interface AcquireAllOptions extends HoldOptions {
  /** Gives up after this long with a {@link TimeoutError}; 0 tries once. Default: waits for ever, also while the store is down. */
  within?: number;
}

/** The options of an acquire. */
export interface AcquireOptions extends AcquireAllOptions, TryOptions {}

/** The options of an acquire of a mutex. */
export interface MutexOptions extends AcquireOptions {
  /**
   * Lets this thread keep a mutex for its own use: for this many turns in a row, or `"until-wanted"`, until another
   * client wants it. Its next turn then needs no round trip. Default: 1.
   */
  keep?: number | "until-wanted";
}

/** The locks of one store. `await using` closes it. */
export class Locks implements AsyncDisposable {
  private constructor();
  /** The id of this client, as views show it. */
  readonly clientId: string;
  /** What the engine of the store guarantees. */
  readonly guarantees: Readonly<{ fair: boolean; fenced: boolean; eventDriven: boolean }>;
  /** One holder at a time. */
  mutex(name: string): Mutex;
  /** Many readers or one writer. A waiting writer blocks later readers. */
  rwlock(name: string): RwLock;
  /** A number of permits. */
  semaphore(name: string, permits: number): Semaphore;
  /** Named members, each with one holder at a time. */
  pool(name: string): Pool;
  /** The mutex of that name, whose holder is the leader. */
  election(name: string): Election;
  /** Work that is done once, and remembered. */
  once(name: string, options?: OnceOptions): Once;
  /** Several mutexes as one. They are acquired in the order of their names, so no two `all`s deadlock. */
  all(names: Iterable<string>): All;
  /** Adopts a lock that another process turned into a handle. */
  adopt(handle: Handle | string): Promise<Guard>;
  /** Renews the lock of a handle once. Resolves with how long it stays held. */
  renew(handle: Handle | string, options?: { lease?: number }): Promise<number>;
  /** Releases the lock of a handle. */
  release(handle: Handle | string): Promise<void>;
  /** Reads one lock with its first 500 waiters; null if nobody has used it recently. */
  inspect(name: string): Promise<LockView | null>;
  /** Reads all locks whose name matches (`*` for any characters, `?` for one), by default with one waiter each. */
  list(pattern?: string, options?: { waiters?: number }): Promise<LockView[]>;
  /**
   * Takes a lock from its holders, or from the one with this token, and resolves with how many there were. The lock
   * passes on when they have stopped; `atOnce` does not wait for that.
   */
  breakLock(name: string, options?: { token?: number; atOnce?: boolean }): Promise<number>;
  /**
   * Ends the connection when everything that was released is released in the store. Acquires that wait reject with a
   * {@link ClosedError}. What is held stays held until it is released, and keeps the connection until then.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** One holder at a time. */
export class Mutex {
  private constructor();
  readonly name: string;
  /** Waits for the lock. */
  acquire(options?: MutexOptions): Promise<Guard>;
  /** Takes the lock if nobody holds it or waits for it; null otherwise. */
  tryAcquire(options?: TryOptions): Promise<Guard | null>;
  /**
   * Waits for the lock, does the work under it, and releases it. Rejects with a {@link LostError} if the lock was lost
   * before the work was done; the work learns of that by `guard.lost`, and is waited for.
   */
  run<T>(work: (guard: Guard) => T | PromiseLike<T>, options?: MutexOptions): Promise<Awaited<T>>;
}

/** Many readers or one writer. */
export class RwLock {
  private constructor();
  readonly name: string;
  /** Waits to read, beside other readers. */
  read(options?: AcquireOptions): Promise<Guard>;
  /** Waits to write, alone. */
  write(options?: AcquireOptions): Promise<Guard>;
  tryRead(options?: TryOptions): Promise<Guard | null>;
  tryWrite(options?: TryOptions): Promise<Guard | null>;
}

/** A number of permits. */
export class Semaphore {
  private constructor();
  readonly name: string;
  readonly permits: number;
  /** Waits for one permit. */
  acquire(options?: AcquireOptions): Promise<Guard>;
  /** Waits for several permits, and takes all of them at once. */
  acquireMany(permits: number, options?: AcquireOptions): Promise<Guard>;
  tryAcquire(options?: TryOptions): Promise<Guard | null>;
  tryAcquireMany(permits: number, options?: TryOptions): Promise<Guard | null>;
  /** Changes the number of permits to that of this object, even while the semaphore is in use. */
  resize(): Promise<boolean>;
}

/** Named members, each with one holder at a time. */
export class Pool {
  private constructor();
  readonly name: string;
  /** Waits for any member; takes the one that has been free for longest. */
  any(options?: AcquireOptions): Promise<Guard>;
  tryAny(options?: TryOptions): Promise<Guard | null>;
  /** Waits for a named member, even for one that is yet to be added. */
  member(member: string, options?: AcquireOptions): Promise<Guard>;
  tryMember(member: string, options?: TryOptions): Promise<Guard | null>;
  /** Adds a member, which stays until it is removed. Resolves with whether it is new. */
  add(member: string): Promise<boolean>;
  /** Removes a member; one that is held goes when it is released. */
  remove(member: string): Promise<boolean>;
}

/** One leader at a time. */
export class Election {
  private constructor();
  readonly name: string;
  /** Waits until nobody leads and no earlier candidate waits. The guard is the leadership; releasing it resigns. */
  campaign(options?: MutexOptions): Promise<Guard>;
  /** Campaigns, does the work while leading, and campaigns again if the leadership is lost. */
  lead<T>(work: (leadership: Guard) => T | PromiseLike<T>, options?: MutexOptions): Promise<Awaited<T>>;
  /** Who leads. */
  leader(): Promise<HolderView | null>;
  /**
   * Yields who leads, first at once and then whenever that changes. It polls, every second by default. The signal ends
   * the iteration by throwing its reason.
   */
  observe(options?: { every?: number; signal?: AbortSignal }): AsyncGenerator<HolderView | null, never, void>;
}

/** How long the work of a once is remembered, and how often it is tried. All times are in milliseconds. */
export interface OnceOptions {
  /** For how long, by the store's wall clock. From 1 s to 31 days. Default: 24 hours. Not with `every`. */
  rememberFor?: number;
  /** Lets the work be done once per period of this length instead. From 1 s to 31 days. */
  every?: number;
  /**
   * When a period begins, counted from 1970-01-01 00:00 UTC and multiples of `every`. Default: 0. Let it begin when nobody
   * begins the work: clocks differ.
   */
  offset?: number;
  /** How many attempts may fail until nobody may try any more. Default: no limit. */
  attempts?: number;
  /** How long after a failed attempt the next one begins. Default: at once. */
  pause?: number;
}

/** What came of {@link Once.run}: what the work gave, or who did it before. */
export type OnceOutcome<T> = { didIt: true; value: T; completion?: never } | { didIt: false; completion: Completion; value?: never };

/** What came of {@link Once.begin}: the right to do the work, or who did it before. */
export type Begun = { attempt: Attempt; completion: null } | { attempt: null; completion: Completion };

/** Who did the work of a once, and when, by the store's clock. */
export interface Completion {
  by: string;
  why: string;
  at: Date;
  /** When it is forgotten. */
  until: Date;
  token: number;
  /** How many attempts failed before. */
  failed: number;
  /** What its worker said of it. */
  result: string;
}

/**
 * Work that is done once, by the first process that asks, on any machine. Then everybody who asks, and everybody who waits,
 * is told who did it and when. If an attempt fails, or its process dies, the next in line tries. The work can run a second
 * time if its process dies after the work and before that is recorded, or if the store loses the record.
 */
export class Once {
  private constructor();
  readonly name: string;
  /**
   * Does the work, unless it is done: waits for its turn, does it, and records what became of it. If the work throws, the
   * attempt has failed, and this rejects with the same. The work may call `attempt.done(result)` itself. Rejects with a
   * {@link LostError} if the attempt was lost before that; the work learns of it by `attempt.lost`, and is waited for.
   */
  run<T>(work: (attempt: Attempt) => T | PromiseLike<T>, options?: AcquireAllOptions): Promise<OnceOutcome<Awaited<T>>>;
  /**
   * Waits until the work is done, or until it is this client's turn to attempt it. Rejects with an {@link ExhaustedError} if
   * the work failed as often as it may.
   */
  begin(options?: AcquireAllOptions): Promise<Begun>;
  /** Attempts the work if nobody else does; null otherwise, and while the pause after a failure lasts. */
  tryBegin(options?: HoldOptions): Promise<Begun | null>;
  /** By whom and when the work was done; null if it is not done. It only looks. */
  completion(): Promise<Completion | null>;
  /** Forgets that the work was done, and how often it failed. Resolves with whether there was anything to forget. */
  undo(): Promise<boolean>;
}

/**
 * The right to do the work of a once: a held lock that ends by saying what became of the work. `await using` records that it
 * failed, unless it is done.
 */
export class Attempt implements AsyncDisposable {
  private constructor();
  readonly name: string;
  readonly token: number | null;
  /** The token, if the attempt is not lost. Throws a {@link LostError} otherwise. */
  check(): number;
  readonly isHeld: boolean;
  /** Fires when the attempt is lost, with a {@link LostError} as its reason. */
  readonly lost: AbortSignal;
  readonly left: number;
  readonly span: number;
  readonly trouble: string | null;
  /**
   * Records that the work is done, with a result of at most 256 bytes for all who ask. Rejects with a {@link LostError} if
   * the attempt was lost before; then the work is not recorded as done.
   */
  done(result?: string): Promise<void>;
  /** Records that the attempt failed: the next in line tries, after the pause. */
  fail(): Promise<void>;
  /** As {@link fail}; does nothing if that or {@link done} was called. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Several mutexes, held all together or not at all. */
export class All {
  private constructor();
  readonly names: string[];
  acquire(options?: AcquireAllOptions): Promise<AllGuard>;
}

/**
 * A held lock. It is renewed until it is released or lost, and keeps the process alive for as long. `await using`
 * releases it. Keep it for as long as the work takes: a guard that nobody can reach any more gives its lock back.
 */
export class Guard implements AsyncDisposable {
  private constructor();
  /** The lock's name. */
  readonly name: string;
  /** The fencing token, whether the lock is still held or not; null only if the store has none. */
  readonly token: number | null;
  /** Which member of the pool it is. */
  readonly member: string | null;
  /** The token, if the lock is still held. Throws a {@link LostError}, for good, from the moment on from which somebody else may hold it. */
  check(): number;
  readonly isHeld: boolean;
  /** Fires when the lock is lost, with a {@link LostError} as its reason. Never fires after a release. */
  readonly lost: AbortSignal;
  /** How long the lock stays held if it is never renewed again, in milliseconds. */
  readonly left: number;
  /** How long the last grant or renewal was for, in milliseconds. */
  readonly span: number;
  /** Why the last renewal failed, unless a later one succeeded. */
  readonly trouble: string | null;
  /** Releases the lock. Rejects with a {@link LostError} if it was lost before. A second call returns the same promise. */
  release(): Promise<void>;
  /** Turns the held lock into a handle, which another process can adopt before the lease ends. */
  intoHandle(): Promise<Handle>;
  /** As {@link release}; does nothing if that was called. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Several mutexes, all held. If one of them is lost, all count as lost. */
export class AllGuard implements AsyncDisposable {
  private constructor();
  /** The tokens, in the order of the locks' names. */
  readonly tokens: ReadonlyMap<string, number | null>;
  /** The tokens, if all locks are still held. */
  check(): Map<string, number>;
  readonly isHeld: boolean;
  /** Fires when the first of them is lost, with a {@link LostError} as its reason. */
  readonly lost: AbortSignal;
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A held lock that nobody renews, on its way to another process. It is a secret: enough to release the lock. */
export class Handle {
  private constructor();
  readonly name: string;
  readonly token: number | null;
  /** The handle as one line of text. Keep it out of logs and command lines. */
  expose(): string;
  static parse(text: string): Handle;
}

/** A lock at one instant. Times are in milliseconds. */
export interface LockView {
  name: string;
  kind: "mutex" | "rwlock" | "semaphore" | "pool" | "once";
  /** How many permits a semaphore has. */
  permits: number | null;
  lastToken: number | null;
  /** In the order of the grants. */
  holders: HolderView[];
  /** How many wait; `waiters` may show fewer. */
  waiting: number;
  waiters: WaiterView[];
  members: { name: string; held: boolean; leaving: boolean; stale: boolean }[];
  /** What is remembered of the work, if it is a once. */
  work: WorkView | null;
  /** For how long nothing is granted, since the store may have forgotten a holder. */
  quarantineLeft: number | null;
}

/** What is remembered of the work of a once. Times are in milliseconds. */
export interface WorkView {
  /** How many attempts failed; of work that is done, before it was. */
  failed: number;
  /** How long the first in line still waits because the last attempt failed. */
  retryIn: number | null;
  /** How long it is still remembered. */
  forgottenIn: number;
  /** By whom and when it was done, if it is. */
  done: Completion | null;
}

/** What was asked for. */
export type Mode = "mutex" | "read" | "write" | "permits" | "any" | "member" | "once";

export interface HolderView {
  who: string;
  why: string;
  client: string;
  mode: Mode;
  permits: number | null;
  token: number | null;
  member: string | null;
  heldFor: number;
  left: number;
  /** Broken: it can't be renewed any more. */
  revoked: boolean;
  /** It was released or lost, and stays for the time that its acquire set with `atLeast`. */
  resting: boolean;
}

export interface WaiterView {
  who: string;
  why: string;
  client: string;
  mode: Mode;
  permits: number | null;
  member: string | null;
  waitedFor: number;
}

/** The kinds of errors. Each has a class of its own. */
export type ErrorKind =
  | "Timeout"
  | "Unreachable"
  | "NoQuorum"
  | "Indeterminate"
  | "Lost"
  | "NotHeld"
  | "KindMismatch"
  | "QueueFull"
  | "PoolFull"
  | "Unfenced"
  | "Quarantined"
  | "InvalidName"
  | "InvalidLabel"
  | "InvalidLease"
  | "InvalidMaxHold"
  | "InvalidPermits"
  | "InvalidKeep"
  | "InvalidAtLeast"
  | "InvalidOnce"
  | "InvalidNote"
  | "Exhausted"
  | "InvalidUrl"
  | "InvalidHandle"
  | "Store"
  | "Unsupported"
  | "Closed";

/** An error of this package: what happened, to which lock, and what to do. Wrong types of arguments are a `TypeError`. */
export class TakeTurnsError extends Error {
  protected constructor();
  readonly kind: ErrorKind;
  /** Which lock, if it is about one. */
  readonly lock: string | null;
  /** The same call may succeed later, without anybody changing anything. */
  readonly retryable: boolean;
}

/** Others held the lock for all of the time given by `within`. */
export class TimeoutError extends TakeTurnsError {}
/** The store could not be reached, and the request was never placed there. */
export class UnreachableError extends TakeTurnsError {}
/** Too few nodes of a quorum could be reached. */
export class NoQuorumError extends TakeTurnsError {}
/** The request was sent, but its outcome is unknown. */
export class IndeterminateError extends TakeTurnsError {}
/** The lock was held, and is not any more. */
export class LostError extends TakeTurnsError {
  readonly lossCause: "expired" | "gone" | "revoked" | "max_hold" | "clock_set" | "unattended" | "other";
}
/** The lock is not held by this guard or handle, or no longer. */
export class NotHeldError extends TakeTurnsError {}
/** The lock is in use as another kind, or as a semaphore of another size. */
export class KindMismatchError extends TakeTurnsError {}
/** The queue has its greatest length. */
export class QueueFullError extends TakeTurnsError {}
/** The pool has the most members that it can have. */
export class PoolFullError extends TakeTurnsError {}
/** The store speaks a foreign protocol that has no fencing tokens. */
export class UnfencedError extends TakeTurnsError {}
/** The lock is granted to nobody for now: its store may have forgotten a holder. */
export class QuarantinedError extends TakeTurnsError {}
/** No lock and no member can have that name. */
export class InvalidNameError extends TakeTurnsError {}
/** `who` or `why` is too long or not plain text. */
export class InvalidLabelError extends TakeTurnsError {}
/** The lease is shorter or longer than the store takes. */
export class InvalidLeaseError extends TakeTurnsError {}
/** `maxHold` is too short to hold anything. */
export class InvalidMaxHoldError extends TakeTurnsError {}
/** The semaphore does not have this number of permits. */
export class InvalidPermitsError extends TakeTurnsError {}
/** The lock can't be kept like that. */
export class InvalidKeepError extends TakeTurnsError {}
/** Nobody else can be kept from the lock for so long. */
export class InvalidAtLeastError extends TakeTurnsError {}
/** No once has these options. */
export class InvalidOnceError extends TakeTurnsError {}
/** The result of the work is too long or not plain text. */
export class InvalidNoteError extends TakeTurnsError {}
/** The work of a once failed as often as it may. */
export class ExhaustedError extends TakeTurnsError {}
/** The store's URL can't be understood. */
export class InvalidUrlError extends TakeTurnsError {}
/** The handle can't be understood. */
export class InvalidHandleError extends TakeTurnsError {}
/** The store can be reached but not used: damaged, full, of another format, not ours. */
export class StoreError extends TakeTurnsError {}
/** The store can't do what was asked for. */
export class UnsupportedError extends TakeTurnsError {}
/** The client was closed. */
export class ClosedError extends TakeTurnsError {}
