/** The connection on which a client waits for its response. */
export interface ClientConnection {
  /** `true` if the client has disconnected before its response was complete. */
  readonly disconnected: boolean
  /** Calls `listener` when the client disconnects, or at once if it has disconnected already. */
  onDisconnect(listener: () => void): void
}
