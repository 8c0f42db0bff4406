/** The words of a page for an OAuth error. */
export interface ErrorAdvice {
  readonly heading: string
  /** The sentences on what to do next. */
  readonly next: string
}

const ADD_AGAIN = 'Remove this server in your application and add it again.'
const START_AGAIN = 'Start again from your application.'
const SIGN_IN_NEEDED: ErrorAdvice = { heading: 'You must sign in', next: START_AGAIN }

const NOT_ACCEPTED: ErrorAdvice = {
  heading: 'This server does not accept the application',
  next: `${ADD_AGAIN} If this page appears again, ask the makers of the application for help.`,
}

const ADVICE: Readonly<Record<string, ErrorAdvice>> = {
  access_denied: {
    heading: 'The sign-in was denied',
    next: `${START_AGAIN} Use another account, or ask the operator of this server for access.`,
  },
  consent_required: SIGN_IN_NEEDED,
  interaction_required: SIGN_IN_NEEDED,
  login_required: SIGN_IN_NEEDED,
  invalid_client: { heading: 'This server does not know the application', next: ADD_AGAIN },
  invalid_client_metadata: NOT_ACCEPTED,
  invalid_redirect_uri: NOT_ACCEPTED,
  invalid_scope: {
    heading: 'You do not have the access that the application requests',
    next: `Ask the operator of this server for access. Then start again from your application.`,
  },
  invalid_target: {
    heading: 'The application requests access to another server',
    next: `Check the address of this server in your application. ${ADD_AGAIN}`,
  },
  server_error: {
    heading: 'The sign-in failed',
    next: `${START_AGAIN} If it fails again, try later.`,
  },
  temporarily_unavailable: {
    heading: 'This service is temporarily unavailable',
    next: 'Wait a few seconds. Then start again from your application.',
  },
  too_many_requests: {
    heading: 'Too many sign-ins were started',
    next: 'Wait a minute. Then start again from your application.',
  },
}

const EXPIRED: ErrorAdvice = { heading: 'This sign-in has expired', next: START_AGAIN }

const CLIENT_DENIED: ErrorAdvice = {
  heading: 'This application is not allowed',
  next: 'Use another application, or ask the operator of this server to allow this one.',
}

const OTHER: ErrorAdvice = {
  heading: 'The application cannot be connected',
  next: `${START_AGAIN} If this page appears again, update the application, or ask its makers for help.`,
}

/**
 * Returns the words for an OAuth error of an authorization request.
 * @param isBegun `true` if the user has come back from the sign-in
 */
export function adviceFor(error: string, status: number, isBegun: boolean): ErrorAdvice {
  if (status === 403) return CLIENT_DENIED
  if (isBegun && error === 'invalid_request') return EXPIRED
  return Object.hasOwn(ADVICE, error) ? (ADVICE[error] as ErrorAdvice) : OTHER
}
