"""Writes points through influxdb, as the document on standard input says: see clients_test.go. It prints how each write
ended."""
import json
import sys
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError


def point(p):
    out = {"measurement": p["measurement"], "tags": p.get("tags"), "fields": p["fields"]}
    if p.get("date"):
        out["time"] = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=p["date"])
    elif p["time"]:
        out["time"] = int(p["time"])
    return out  # without a time, it is for the server to say


def write(url, w):
    at = urlsplit(url)
    client = InfluxDBClient(host=at.hostname, port=at.port, username="any", password=w["token"], database=w["bucket"], gzip=True)
    try:
        client.write_points([point(p) for p in w["points"]], time_precision=w["precision"])
        return {"ok": True, "failed": []}
    except InfluxDBClientError as err:
        return {"failed": [err.code], "message": str(err), "body": err.content}
    finally:
        client.close()


document = json.load(sys.stdin)
print(json.dumps([write(document["url"], w) for w in document["writes"]]))
