export { type CallToolOptions, callTool, type ToolResponse } from './call-tool.ts'
export {
  createTelemetryRecorder,
  type EnvelopePattern,
  type PatternOf,
  type TelemetryRecorder,
} from './telemetry-recorder.ts'
export {
  createTestIssuer,
  type TestIssuer,
  type TestIssuerOptions,
  type TestTokenOptions,
} from './test-issuer.ts'
