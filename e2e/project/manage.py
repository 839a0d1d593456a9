"""The project's commands: `python manage.py migrate`."""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "aviary.settings")
execute_from_command_line(sys.argv)
