import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

/** A certificate and its key, both as PEM. */
export interface IssuedCertificate {
  readonly key: string
  readonly cert: string
}

/** A certificate authority that exists for one test. */
export interface CertificateAuthority {
  /** The certificate of the authority, as PEM. */
  readonly cert: string
  /** Issues a certificate for 127.0.0.1, for servers and clients. */
  issue(name: string): IssuedCertificate
}

let serial = 1

export function createAuthority(name = 'authority'): CertificateAuthority {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const isAuthority = extension([0x55, 0x1d, 0x13], sequence(der(0x01, Buffer.from([0xff]))))
  return {
    cert: certificateOf(name, publicKey, isAuthority, { name, key: privateKey }),
    issue(subject) {
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      return {
        key: String(pair.privateKey.export({ type: 'pkcs8', format: 'pem' })),
        cert: certificateOf(subject, pair.publicKey, alternativeNames(), { name, key: privateKey }),
      }
    },
  }
}

/** Creates a self-signed certificate for 127.0.0.1 and further host names, and its key. */
export function selfSigned(...hosts: readonly string[]): IssuedCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    cert: certificateOf('loopback', publicKey, alternativeNames(...hosts), {
      name: 'loopback',
      key: privateKey,
    }),
  }
}

/** Returns a certificate of RFC 5280 as PEM, valid from yesterday to tomorrow. */
function certificateOf(
  subject: string,
  publicKey: KeyObject,
  extensions: Buffer,
  issuer: { readonly name: string; readonly key: KeyObject },
): string {
  const ecdsaWithSha256 = sequence(oid([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]))
  const day = 86_400_000
  const certificate = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([++serial])),
    ecdsaWithSha256,
    nameOf(issuer.name),
    sequence(utcTime(Date.now() - day), utcTime(Date.now() + day)),
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extensions)),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', certificate, issuer.key)])
  const signed = sequence(certificate, ecdsaWithSha256, der(0x03, signature))
  return `-----BEGIN CERTIFICATE-----\n${signed.toString('base64')}\n-----END CERTIFICATE-----\n`
}

function nameOf(commonName: string): Buffer {
  return sequence(der(0x31, sequence(oid([0x55, 0x04, 0x03]), der(0x0c, Buffer.from(commonName)))))
}

function utcTime(ms: number): Buffer {
  return der(0x17, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))
}

/** The address 127.0.0.1 and host names. */
function alternativeNames(...hosts: readonly string[]): Buffer {
  const address = der(0x87, Buffer.from([127, 0, 0, 1]))
  return extension(
    [0x55, 0x1d, 0x11],
    sequence(address, ...hosts.map((host) => der(0x82, Buffer.from(host)))),
  )
}

function extension(id: number[], value: Buffer): Buffer {
  return sequence(oid(id), der(0x04, value))
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function oid(bytes: number[]): Buffer {
  return der(0x06, Buffer.from(bytes))
}
