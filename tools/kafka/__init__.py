"""A real Apache Kafka broker on this machine, without containers: for playing and for tests.

``python -m tools.kafka up`` runs one in the foreground. Needs Java 17 or newer; Maven once, to get
the jars (43 MB) into the cache.
"""

from tools.kafka.broker import Broker, free_port
from tools.kafka.jars import Missing, fetch_jars, find_java

__all__ = ["Broker", "Missing", "fetch_jars", "find_java", "free_port"]
