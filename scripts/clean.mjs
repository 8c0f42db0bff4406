import { rmSync } from 'node:fs'

for (const folder of ['dist', 'build']) rmSync(folder, { recursive: true, force: true })
