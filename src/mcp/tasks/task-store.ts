/** The key of a task. A store finds a task only by its owner and its id together. */
export interface TaskKey {
  /** A hash of the owner: the issuer and the subject of the token. All tasks share one owner if OAuth is disabled. */
  readonly owner: string
  /** The id that the client receives: 192 random bits. */
  readonly id: string
}

/** The limits of a new task. */
export interface TaskLimits {
  /** The time after which the store removes the task, in milliseconds since 1970. */
  readonly expiresAtMs: number
  /** A hash of what tasks are counted by: the owner or, if OAuth is disabled, the client address. */
  readonly countedFor: string
  /** The maximum number of tasks with the same `countedFor`. */
  readonly max: number
}

/** A stored task, and the number of its changes. */
export interface StoredTask {
  /** The task as JSON. */
  readonly value: string
  /** Grows with each change. */
  readonly version: number
}

/**
 * The place in which an adapter keeps tasks. The values are JSON strings that contain the arguments, the answers of the user,
 * and the results of tools. Every method may reject if the store is unavailable.
 */
export interface TaskStore {
  /**
   * Stores a new task with version 1, unless a limit is reached. Resolves when every node can read it: with `added`, with
   * `owner-full` if there are `max` tasks with the same `countedFor`, or with `store-full`.
   */
  add(key: TaskKey, value: string, limits: TaskLimits): Promise<'added' | 'owner-full' | 'store-full'>
  /** Resolves with a task, or with `undefined` if there is none. */
  get(key: TaskKey): Promise<StoredTask | undefined>
  /**
   * Changes a task in one step if it still has `version`. Resolves with `replaced`, with `changed` if the task has another
   * version or does not exist, or with `store-full`.
   */
  replace(key: TaskKey, version: number, value: string): Promise<'replaced' | 'changed' | 'store-full'>
  /** Records that a node is alive. The record expires after `ttlMs`. */
  beat(node: string, ttlMs: number): Promise<void>
  /** Resolves with `true` if a node is alive. */
  isAlive(node: string): Promise<boolean>
  /** Notifies the other nodes that a task has changed. Absent if there is one node. Must not throw. */
  announce?(key: TaskKey): void
  /** Calls `listener` when another node has changed a task. Returns a function that ends this. */
  subscribe?(listener: (key: TaskKey) => void): () => void
}
