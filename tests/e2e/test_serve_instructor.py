"""The `instructor` client against the server: objects of a type by a forced call, by a schema and as JSON, unpatched."""
import unittest
from typing import Literal

import client_case
import packages


class Instructor(client_case.ScriptedCase):
    @classmethod
    def setUpClass(cls):
        cls.instructor = packages.need("instructor", apart="instructor")
        cls.openai = packages.need("openai", apart="instructor")
        cls.pydantic = packages.need("pydantic", apart="instructor")
        super().setUpClass()
        cls.plain = cls.openai.OpenAI(base_url=cls.server.url + "/v1", api_key=client_case.KEY, timeout=120, max_retries=0)
        cls.addClassCleanup(cls.plain.close)
        cls.name = cls.plain.models.list().data[0].id

        class Weather(cls.pydantic.BaseModel):
            """The weather of a place."""

            unit: Literal["C", "F"]
            dry: bool
            wind: Literal[3, 4]

        cls.Weather = Weather

    def ask(self, mode, method="create", kind=None, **more):
        client = self.instructor.from_openai(self.plain, mode=mode)
        ask = getattr(client.chat.completions, method)
        return ask(model=self.name, response_model=kind or self.Weather, max_retries=0, max_tokens=3000, temperature=0,
                   messages=[{"role": "user", "content": "hello"}], **more)

    def test_each_mode_gives_the_type(self):
        """The model would answer with a text that is no JSON: the server alone makes it one."""
        modes = self.instructor.Mode
        for mode in (modes.TOOLS, modes.TOOLS_STRICT, modes.JSON_SCHEMA):
            with self.subTest(mode):
                self.assertIsInstance(self.ask(mode), self.Weather)

    def test_a_streamed_object(self):
        """Pieces come as they are written, and the last is whole."""
        for mode in (self.instructor.Mode.TOOLS, self.instructor.Mode.JSON_SCHEMA):
            with self.subTest(mode):
                last = list(self.ask(mode, "create_partial"))[-1]
                self.assertIn(last.unit, ("C", "F"))
                self.assertIn(last.wind, (3, 4))


if __name__ == "__main__":
    unittest.main()
