// Serves the handler of a Lambda function as API Gateway calls it.
// usage: node serve-lambda.js <module> [--base64]
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'
import { apiGateway } from './api-gateway.ts'

const [file = '', option] = process.argv.slice(2)
const { handler } = await import(pathToFileURL(file).href)
const listener = apiGateway(handler, { encodesBodies: option === '--base64' })
createServer({ maxHeaderSize: 65_536 }, listener).listen(Number(process.env.PORT), '127.0.0.1')
