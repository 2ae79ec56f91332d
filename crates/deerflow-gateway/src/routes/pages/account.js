'use strict';
const at = id => document.getElementById(id);
const auth = '/api/v1/auth/';
const cookie = name => document.cookie.split('; ').map(c => c.split('=')).find(c => c[0] === name)?.[1] ?? '';

async function call(path, method = 'GET', body) {
  const headers = { 'X-CSRF-Token': cookie('csrf_token') };
  if (body && !(body instanceof URLSearchParams)) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(body);
  }
  const response = await fetch(auth + path, { method, headers, body });
  const answer = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (!response.ok) {
    const detail = answer.detail;
    throw Object.assign(new Error(detail?.message ?? detail?.[0]?.msg ?? detail ?? response.statusText), { status: response.status });
  }
  return answer;
}

const modes = {
  setup: {
    intro: 'Choose an address and a password. This first account administers the installation.',
    submit: 'Create account', path: 'initialize', autocomplete: 'new-password',
  },
  login: { intro: 'Log in.', submit: 'Log in', path: 'login/local', autocomplete: 'current-password' },
  register: { intro: 'Create an account.', submit: 'Create account', path: 'register', autocomplete: 'new-password' },
};
let mode = 'login';

function form(next, other) {
  mode = next;
  at('account').hidden = true;
  at('form').hidden = false;
  at('intro').textContent = modes[mode].intro;
  at('submit').textContent = modes[mode].submit;
  at('password').autocomplete = modes[mode].autocomplete;
  at('other').hidden = !other;
  at('other').textContent = mode === 'login' ? 'Create an account' : 'Log in instead';
}

async function show() {
  at('problem').textContent = new URLSearchParams(location.search).has('error') ? 'The login there did not work.' : '';
  try {
    const me = await call('me');
    at('form').hidden = true;
    at('account').hidden = false;
    at('who').textContent = me.email;
    return;
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  const status = await call('setup-status');
  if (status.needs_setup) return form('setup', false);
  form('login', status.registration_enabled);
  const { providers } = await call('providers');
  at('providers').replaceChildren(...providers.map(provider => {
    const link = document.createElement('a');
    link.href = auth + 'oauth/' + encodeURIComponent(provider.id);
    link.textContent = 'Log in with ' + provider.display_name;
    return link;
  }));
}

const guarded = action => async event => {
  event?.preventDefault();
  at('problem').textContent = '';
  try { await action(); } catch (error) { at('problem').textContent = error.message; }
};

at('form').addEventListener('submit', guarded(async () => {
  const email = at('email').value, password = at('password').value, remember_me = at('remember').checked;
  const body = mode === 'login' ? new URLSearchParams({ username: email, password, remember_me }) : { email, password, remember_me };
  await call(modes[mode].path, 'POST', body);
  at('password').value = '';
  history.replaceState(null, '', '/account');
  await show();
}));
at('other').addEventListener('click', () => form(mode === 'login' ? 'register' : 'login', true));
at('logout').addEventListener('click', guarded(async () => { await call('logout', 'POST'); at('made').hidden = true; await show(); }));
at('key').addEventListener('click', guarded(async () => {
  const made = await call('api-keys', 'POST', { name: 'browser ' + new Date().toISOString().slice(0, 16) });
  at('made').hidden = false;
  at('made').textContent = 'Your key, shown this once:\n' + made.key
    + '\n\ncurl -H "Authorization: Bearer ' + made.key + '" ' + location.origin + '/api/models';
}));
guarded(show)();
