"""An application that has looked into its database before gunicorn forks its workers, which inherit the connection."""

from aviary.wsgi import application as application
from sightings.models import Species

Species.objects.count()
