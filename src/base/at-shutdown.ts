/** The method of a telemetry manager that calls a function when the manager is shut down, before its last events are sent. */
export const atShutdown: unique symbol = Symbol.for('mcp-gatekit.atShutdown')
