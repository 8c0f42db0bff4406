export { type WorkerTransportOptions, workerTransport } from './transports/worker/worker.ts'
