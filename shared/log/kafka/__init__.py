"""The log on Apache Kafka, by aiokafka."""

from shared.log.kafka.log import KafkaLog
from shared.log.kafka.settings import KafkaSettings

__all__ = ["KafkaLog", "KafkaSettings"]
