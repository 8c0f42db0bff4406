import * as telemetry from '../../../src/telemetry/index.ts'

/** This file is bundled for runtimes without Node.js. It makes the exports of telemetry available to the code of tests. */
Object.assign(globalThis, { kit: telemetry })
