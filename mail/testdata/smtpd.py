"""A mail server for tests: aiosmtpd on 127.0.0.1, which prints one JSON object a
line: {"port": N} when it listens, then each message that it took.

What it answers depends on the recipient: gone@ is refused for good, busy@ always
has to wait, late@ has to wait twice, hang@ gets no answer, die@ ends the server
once the body has come, spam@ is refused after the body.
"""
import argparse
import asyncio
import json
import os
import ssl

from aiosmtpd.smtp import SMTP, AuthResult

args = argparse.ArgumentParser()
args.add_argument("--port", type=int, default=0)
args.add_argument("--cert")
args.add_argument("--key")
args.add_argument("--tls", choices=["none", "starttls", "tls"], default="none")
args.add_argument("--user")
args.add_argument("--password")
args.add_argument("--no-auth", action="store_true")
args = args.parse_args()


def say(**what):
    print(json.dumps(what), flush=True)


class Handler:
    late = 0

    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        if name == "gone":
            return "550 5.1.1 no such mailbox"
        if name == "busy":
            return "451 4.3.0 try again later"
        if name == "late":
            self.late += 1
            if self.late <= 2:
                return "451 4.7.1 greylisted"
        if name == "hang":
            await asyncio.sleep(3600)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        names = [a.split("@")[0] for a in envelope.rcpt_tos]
        if "die" in names:
            os._exit(9)
        if "spam" in names:
            return "554 5.7.1 looks like spam"
        say(**{
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "data": envelope.content.decode(),
            "tls": server.transport.get_extra_info("sslcontext") is not None,
            "user": session.auth_data.login.decode() if session.auth_data else "",
        })
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    ok = data.login.decode() == args.user and data.password.decode() == args.password
    return AuthResult(success=ok, handled=False, auth_data=data)


async def main():
    context = None
    if args.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(args.cert, args.key)
    starttls = args.tls == "starttls"
    handler = Handler()

    def session():
        return SMTP(
            handler,
            enable_SMTPUTF8=True,
            tls_context=context if starttls else None,
            require_starttls=starttls,
            authenticator=authenticate if args.user else None,
            auth_exclude_mechanism=["LOGIN", "PLAIN"] if args.no_auth else [],
            auth_required=bool(args.user),
            auth_require_tls=starttls,
        )

    server = await asyncio.get_running_loop().create_server(
        session, "127.0.0.1", args.port, ssl=context if args.tls == "tls" else None)
    say(port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


asyncio.run(main())
