/* Copy some numbers of the memory. */
static void gather(shield_t *s, const int *entries, int count, int to)
{
    for (int i = 0; i < count; i++)
        s->memory[to + i] = s->memory[entries[i]];
}
