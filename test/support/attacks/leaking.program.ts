// A server that keeps everything it receives. It shows that the tests detect a program that runs out of memory.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { reportReady } from './resource-report.ts'

const kept: number[][] = []

const server = createServer((req, res) => {
  if (req.url === '/attack') while (true) kept.push(new Array(100_000).fill(Math.random()))
  res.end('honest')
}).listen(0, '127.0.0.1')
await once(server, 'listening')
reportReady(server)
